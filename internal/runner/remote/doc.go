// Package remote carries fleet.Runner over a network: a Server offers runners where agents live, and a Client calls
// them from Fleet. They speak fleet.runner.v1 over the Connect protocol, which works through any HTTP/1.1 proxy.
//
// cmd/fleet-runner uses the Server, and the place coder uses the Client. The Server must never act on a request that
// Fleet has not signed. Only Handshake needs no signature: it changes nothing and reveals no secret.
//
// Fleet signs every other request with its Ed25519 key, because the agent runs as the same user as the runner and can
// reach its port. The signature covers the procedure, the agent's uid, the runner's process, a nonce, an expiry and the
// hash of the body. So a stranger cannot make a request, and nobody can change a request, repeat it, delay it, or send
// it to another runner.
//
// No transport retries a POST, so the Client does, with a new signature. This is safe: Dispatch has an effect only once
// for a task id, and Send only once for a message id. Interrupt may be repeated, and Follow continues from its cursor.
package remote

// Versions of the protocol.
const (
	Protocol       = 1 // the current version
	OldestProtocol = 1 // the oldest version that this package supports
)
