/** The invitation behind the # of the address, and a memory of its own for each one: a browser may serve a household. */

/** The invitation in the address, taken out of sight; the tab's history entry keeps it for a reload. */
export function takeInvitation() {
  const found = new URLSearchParams(location.hash.slice(1)).get("invitation");
  if (found) history.replaceState({ invitation: found }, "", location.pathname + location.search);
  return found ?? history.state?.invitation ?? null;
}

/** Whether nothing of an invitation was cut off on its way: it has 48 bytes, as 64 letters and digits. */
export const isWhole = (invitation) => /^[\w-]{64}$/.test(invitation);

/** Whether the collector said before, to this browser, that the invitation was used. */
export const isSpent = ({ spent }) => spent !== undefined && localStorage.getItem(spent) !== null;

/** Remember that for another visit. */
export const markSpent = ({ spent }) => spent !== undefined && localStorage.setItem(spent, "yes");

/**
 * Who answers: the holder of this invitation, so that others who were invited and use the same browser answer for
 * themselves. The invitation itself is not stored. Without one the browser has one report.
 */
export async function memoryOf(invitation) {
  if (invitation === null) return {};
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(invitation));
  const name = Array.from(new Uint8Array(digest, 0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("");
  return { person: invitation, spent: `tacit:spent:${name}` };
}
