"""Clients of the service over HTTP, on httpx."""

from armrace.extras import missing_package
from armrace.service.arguments import RewardItem

try:
    from armrace.service.client.async_queue import AsyncRewardQueue
    from armrace.service.client.clients import AsyncClient, Client
    from armrace.service.client.queue import RewardQueue
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(missing_package(error), name=error.name) from None

__all__ = ["AsyncClient", "AsyncRewardQueue", "Client", "RewardItem", "RewardQueue"]
