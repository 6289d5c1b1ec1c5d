// Package probe examines the URLs and the programs on this machine that providers use. It implements providers.ProbeEnvironment.
// Package providers interprets the results.
//
// Package app passes a Prober to the toolset providers. The package only finds out whether something answers. It must
// never send a prompt, and must send a key only to the URL with which it is called.
package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// maxBody limits how much of the body of a response is read, in bytes.
const maxBody = 1 << 20

// Prober requests URLs and runs programs on this machine. Its methods are safe for concurrent use.
type Prober struct {
	client  *http.Client
	path    string
	environ []string
}

// Config configures a Prober. The zero value works.
type Config struct {
	Environ []string // environment of this process; nil: os.Environ()
}

// New returns a Prober, which keeps no connections open.
func New(c Config) *Prober {
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	p := &Prober{environ: harmlessEnviron(c.Environ), client: &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext, DisableKeepAlives: true,
			TLSHandshakeTimeout: 2 * time.Second, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
		},
		// The headers may hold secrets, which must not be sent to another address.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, v := range p.environ {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			p.path = path
		}
	}
	return p
}

// Get requests the URL with the header, and returns the status and the first MiB of the body of the response. It does not follow
// redirects. Its errors do not contain the header. Only an error for a done context or a timeout contains the URL.
func (p *Prober) Get(ctx context.Context, url string, header map[string]string) (status int, body []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, errors.New("invalid address")
	}
	r.Header.Set("User-Agent", "fleet")
	r.Header.Set("Accept", "application/json")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	resp, err := p.client.Do(r)
	if err != nil {
		return 0, nil, publicError(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return 0, nil, publicError(err)
	}
	return resp.StatusCode, body, nil
}

// publicError returns a short error for people. It does not contain the request, which may hold secrets. An error for a done
// context or a timeout is returned unchanged.
func publicError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return errors.New("unknown host")
		}
		return errors.New("cannot look up the host")
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		if op.Op == "dial" {
			return fmt.Errorf("no connection: %w", rootCause(op.Err))
		}
		return fmt.Errorf("the connection broke: %w", rootCause(op.Err))
	}
	if strings.Contains(err.Error(), "malformed HTTP") {
		return errors.New("the server does not speak HTTP")
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the connection was closed before an answer")
	}
	if strings.Contains(err.Error(), "tls:") || strings.Contains(err.Error(), "x509:") {
		return errors.New("no secure connection: the certificate is invalid, or the server does not speak TLS")
	}
	return errors.New("unreadable answer")
}

// rootCause returns the innermost wrapped error, which is usually an error of the operating system.
func rootCause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
