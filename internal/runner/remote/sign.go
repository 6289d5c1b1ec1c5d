package remote

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"fleet/gen/fleet/runner/v1/runnerv1connect"
	"fleet/internal/fleet"
)

// Headers of a signed request.
const (
	headerAgent     = "Fleet-Agent"
	headerInstance  = "Fleet-Runner-Instance"
	headerNonce     = "Fleet-Nonce"
	headerExpires   = "Fleet-Expires" // Unix time in milliseconds, by the runner's clock
	headerBody      = "Fleet-Body-Sha256"
	headerSignature = "Fleet-Signature"
)

const (
	requestLifetime = time.Minute         // how long a signed request is valid
	maxLifetime     = 2 * requestLifetime // the longest validity that a runner accepts
	maxSkew         = 10 * time.Minute    // maximum difference between the clocks of Fleet and of a runner
	maxRequest      = 32 << 20            // maximum size of a request, in bytes
)

// refusalKey is the key in Fault.metadata of the cause of a refusal. After the causes refusedInstance and refusedExpired, the client
// makes another handshake.
const (
	refusalKey      = "refused"
	refusedInstance = "instance" // the runner was restarted
	refusedExpired  = "expired"
)

// claim is the signed content of a request.
type claim struct {
	procedure, agent, instance, nonce, body string
	expires                                 int64 // Unix time in milliseconds
}

func (c claim) bytes() []byte {
	return fmt.Appendf(nil, "fleet.runner.v1\n%q\n%q\n%q\n%q\n%d\n%q\n", c.procedure, c.agent, c.instance, c.nonce, c.expires, c.body)
}

// procedureOf returns the procedure in a URL's path, which may have a prefix. It returns "" if there is none.
func procedureOf(path string) string {
	if i := strings.LastIndex(path, "/"+runnerv1connect.RunnerServiceName+"/"); i >= 0 {
		return path[i:]
	}
	return ""
}

// sign signs the request. It reads and restores the body.
func sign(req *http.Request, key ed25519.PrivateKey, agent, instance string, expires time.Time) error {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return err
		}
		_ = req.Body.Close()
	}
	reopen := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body, _ = reopen()
	req.GetBody, req.ContentLength = reopen, int64(len(body))
	sum := sha256.Sum256(body)
	c := claim{
		procedure: procedureOf(req.URL.Path), agent: agent, instance: instance, nonce: rand.Text(),
		body: hex.EncodeToString(sum[:]), expires: expires.UnixMilli(),
	}
	h := req.Header
	h.Set(headerAgent, c.agent)
	h.Set(headerInstance, c.instance)
	h.Set(headerNonce, c.nonce)
	h.Set(headerExpires, strconv.FormatInt(c.expires, 10))
	h.Set(headerBody, c.body)
	h.Set(headerSignature, base64.StdEncoding.EncodeToString(ed25519.Sign(key, c.bytes())))
	return nil
}

// verifier accepts requests that Fleet has signed for this process. It accepts each request only once.
type verifier struct {
	key      ed25519.PublicKey
	instance string
	now      func() time.Time

	mu     sync.Mutex
	nonces map[string]time.Time // nonces of valid requests that have not expired
}

func newRefusal(cause, message string) error {
	return fleet.Errorf(fleet.ReasonUnauthenticated, "%s", message).With(refusalKey, cause)
}

// check checks the headers of a request before it reads the body. It then checks the body, and replaces r.Body by the
// data that it has read.
func (v *verifier) check(w http.ResponseWriter, r *http.Request) error {
	c := claim{
		procedure: procedureOf(r.URL.Path), agent: r.Header.Get(headerAgent), instance: r.Header.Get(headerInstance),
		nonce: r.Header.Get(headerNonce), body: r.Header.Get(headerBody),
	}
	signature, err := base64.StdEncoding.DecodeString(r.Header.Get(headerSignature))
	if err == nil {
		c.expires, err = strconv.ParseInt(r.Header.Get(headerExpires), 10, 64)
	}
	if err != nil || !ed25519.Verify(v.key, c.bytes(), signature) {
		return newRefusal("signature", "the request is not signed by this runner's Fleet: give the runner the public key that Fleet shows")
	}
	if c.instance != v.instance {
		return newRefusal(refusedInstance, "the request is for another process of the runner: it was restarted")
	}
	now, expires := v.now(), time.UnixMilli(c.expires)
	if !now.Before(expires) || expires.Sub(now) > maxLifetime {
		return newRefusal(refusedExpired, "the request has expired, or is valid for too long: compare the clocks of Fleet and of the workspace")
	}
	if !v.addNonce(c.nonce, now, expires) {
		return newRefusal("replayed", "the request was already received once: sign each request anew")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return fleet.Errorf(fleet.ReasonLimitReached, "the request is longer than %d bytes", tooLong.Limit)
	}
	if err != nil {
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "the request is incomplete").WithCause(err)
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != c.body {
		return newRefusal("body", "the body of the request is not the one that was signed")
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// addNonce reports whether the nonce is new, and remembers it until the request expires.
func (v *verifier) addNonce(nonce string, now, expires time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for n, nonceExpires := range v.nonces {
		if !now.Before(nonceExpires) {
			delete(v.nonces, n)
		}
	}
	if _, used := v.nonces[nonce]; used {
		return false
	}
	v.nonces[nonce] = expires
	return true
}
