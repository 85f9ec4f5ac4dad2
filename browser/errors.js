/** What can go wrong, by name. No message ever holds a respondent's answer. */

/** A plan that cannot be used: malformed, altered, or not keeping its promise. */
export class PlanError extends Error {
  name = "PlanError";
}

/** The browser cannot remember the report, so none is drawn: a second visit would draw a second one. */
export class StorageError extends Error {
  name = "StorageError";
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
