/**
 * drafts has what the user has typed into a box and not sent, by a name of the box. It outlives the views, which are made
 * anew after missed events, and after the user has signed in again.
 */
export const drafts = new Map<string, string>()
