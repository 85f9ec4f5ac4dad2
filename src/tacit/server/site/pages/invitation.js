/** The invitation behind the # of the address, and a memory of its own for each one: a browser may serve a household. */

/** The invitation in the address, taken out of sight; the tab's history entry keeps it for a reload. */
export function takeInvitation() {
  const found = new URLSearchParams(location.hash.slice(1)).get("invitation");
  if (found) history.replaceState({ invitation: found }, "", location.pathname + location.search);
  return found ?? history.state?.invitation ?? null;
}

/** Whether nothing of an invitation was cut off on its way: it has 48 bytes, as 64 letters and digits. */
export const isWhole = (invitation) => /^[\w-]{64}$/.test(invitation);

const SPENT = "tacit:spent";

/** Whether the collector said before, to this browser, that the invitation was used. */
export const isSpent = ({ storage }) => Boolean(storage?.getItem(SPENT));

/** Remember that for another visit. */
export const markSpent = ({ storage }) => storage?.setItem(SPENT, "yes");

/**
 * Where the report of this invitation is remembered: under its hash, so that whoever was invited as well and uses the
 * same browser answers for themselves. The invitation itself is not stored. Without one the browser has one report.
 */
export async function memoryOf(invitation) {
  if (invitation === null) return {};
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(invitation));
  const name = Array.from(new Uint8Array(digest, 0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const storage = {
    getItem: (key) => localStorage.getItem(`${key}:${name}`),
    setItem: (key, value) => localStorage.setItem(`${key}:${name}`, value),
  };
  return { storage };
}
