// Package remote carries fleet.Runner over a network: a Server has it served where the agent lives, a Client calls it from
// Fleet. They speak fleet.runner.v1 over the Connect protocol, which passes any HTTP/1.1 proxy.
//
// Fleet signs every request with its Ed25519 key, because the agent runs as the same user as the runner and can reach its
// port. What is signed is the procedure, the agent's uid, the runner's process, a nonce, an expiry and the hash of the
// body. So a stranger cannot make a request, and nobody can change one, use it twice, use it later, or use it on another
// runner.
//
// No transport retries a POST, so the Client does, with a fresh signature. That is harmless: Dispatch is idempotent by task
// id, Send by message id, Interrupt by nature, and Follow goes on from its cursor.
package remote

// Protocol is the version of the protocol that this package speaks, and OldestProtocol the oldest that it understands.
const (
	Protocol       = 1
	OldestProtocol = 1
)
