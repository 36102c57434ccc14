/** A refusal of the service, or of this client before anything was sent. */
export class ArmraceError extends Error {
  /**
   * @param code stable, for programs, as in the reference of the service.
   * @param status the status of the answer over HTTP, 0 if there was none.
   */
  constructor(
    message: string,
    readonly code: string,
    readonly status: number = 0,
  ) {
    super(message);
    this.name = "ArmraceError";
  }
}

/** The service does not answer. */
export class ServiceUnreachable extends ArmraceError {
  constructor(message: string) {
    super(message, "service-unreachable");
    this.name = "ServiceUnreachable";
  }
}

export function invalid(message: string): ArmraceError {
  return new ArmraceError(message, "invalid-parameter");
}
