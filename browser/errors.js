/** What can go wrong, by name. No message ever holds a respondent's answer. */

/** A plan that cannot be used: malformed, altered, or not keeping its promise. */
export class PlanError extends Error {
  name = "PlanError";
}

/** The browser cannot remember the report, so none is drawn: a second visit would draw a second one. */
export class StorageError extends Error {
  name = "StorageError";
}

/**
 * The ledger does not allow a draw: `reason` is "wave" for a second draw, "plan" or "browser" for a limit. Of a limit
 * `factors` has the factors by which beliefs could change with this report, and by the limit.
 */
export class LimitError extends Error {
  name = "LimitError";

  /**
   * @param {"wave" | "plan" | "browser" | "persons"} reason
   * @param {string} message
   * @param {{level: string, limit: string} | null} [factors]
   */
  constructor(reason, message, factors = null) {
    super(message);
    this.reason = reason;
    this.factors = factors;
  }
}

/** An invitation's credential cannot be blinded, or what came back is not the collector's signature. */
export class CredentialError extends Error {
  name = "CredentialError";
}

/** The collector did not take the report; `status` is its HTTP status, 0 if it could not be reached. */
export class SendError extends Error {
  name = "SendError";

  /** @param {string} message @param {number} status */
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}
