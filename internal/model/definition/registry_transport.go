package definition

import (
	"fmt"
	"io"
	"net/http"
	"net/url"

	"fleet/internal/loopback"
	"fleet/internal/model/dial"
)

// maxAnswerSize limits an answer of a registry, in bytes.
const maxAnswerSize = 4 << 20

// errTooLarge is the error for an answer that exceeds maxAnswerSize.
var errTooLarge = fmt.Errorf("the registry's answer is larger than %d bytes", maxAnswerSize)

// registryTransport connects to registries. It uses plain HTTP only for a registry on this machine. It limits the size
// of answers, and does not let a remote registry redirect to this machine.
type registryTransport struct {
	base  *http.Transport
	local bool // the registry is on this machine
}

func newRegistryTransport(host string, allowedHosts ...string) *registryTransport {
	return &registryTransport{base: dial.PublicTransport(allowedHosts...), local: loopback.Is((&url.URL{Host: host}).Hostname())}
}

// RoundTrip implements http.RoundTripper.
func (t *registryTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case loopback.Is(r.URL.Hostname()) && !t.local:
		return nil, fmt.Errorf("the registry redirects to this machine")
	case r.URL.Scheme != "https" && !loopback.Is(r.URL.Hostname()):
		return nil, fmt.Errorf("%s requires TLS", r.URL.Host)
	}
	res, err := t.base.RoundTrip(r)
	if err == nil {
		res.Body = &limitedBody{res.Body, maxAnswerSize}
	}
	return res, err
}

// limitedBody is a body whose Read returns errTooLarge when the limit is exceeded.
type limitedBody struct {
	io.ReadCloser
	left int // bytes until the limit
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
