"""Clients of the service over HTTP, on httpx."""

from armrace.service.arguments import RewardItem
from armrace.service.client.async_queue import AsyncRewardQueue
from armrace.service.client.clients import AsyncClient, Client
from armrace.service.client.queue import RewardQueue

__all__ = ["AsyncClient", "AsyncRewardQueue", "Client", "RewardItem", "RewardQueue"]
