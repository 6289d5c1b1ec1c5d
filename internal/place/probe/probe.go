// Package probe looks at what providers are made of: addresses on the network and programs on this machine. It is the
// providers.Outside of a server. What a look means is decided there.
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

// maxBody is how much of an answer is read, in bytes.
const maxBody = 1 << 20

// Outside looks at the network and at the programs on this machine. All its methods are safe for concurrent use.
type Outside struct {
	client  *http.Client
	path    string
	environ []string
}

// Config configures an Outside. The zero value works.
type Config struct {
	Environ []string // this process's environment; nil: os.Environ()
}

// New returns an Outside. It keeps no connections.
func New(c Config) *Outside {
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	o := &Outside{environ: harmless(c.Environ), client: &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext, DisableKeepAlives: true,
			TLSHandshakeTimeout: 2 * time.Second, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
		},
		// What a header of ours holds is for the address that was asked alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, v := range o.environ {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			o.path = path
		}
	}
	return o
}

// Get asks the URL.
func (o *Outside) Get(ctx context.Context, url string, header map[string]string) (status int, body []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, errors.New("the address cannot be used")
	}
	r.Header.Set("User-Agent", "fleet")
	r.Header.Set("Accept", "application/json")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	resp, err := o.client.Do(r)
	if err != nil {
		return 0, nil, words(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return 0, nil, words(err)
	}
	return resp.StatusCode, body, nil
}

// words is what may be told of an error of the network: not the whole request, which the error of the client names.
func words(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return errors.New("its name is not known")
		}
		return errors.New("its name cannot be looked up")
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		if op.Op == "dial" {
			return fmt.Errorf("no connection: %w", cause(op.Err))
		}
		return fmt.Errorf("the connection broke: %w", cause(op.Err))
	}
	if strings.Contains(err.Error(), "malformed HTTP") {
		return errors.New("what answers there does not speak HTTP")
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the connection was closed before an answer")
	}
	if strings.Contains(err.Error(), "tls:") || strings.Contains(err.Error(), "x509:") {
		return errors.New("there is no safe connection: its certificate is not good, or it does not speak TLS")
	}
	return errors.New("there was no answer that can be read")
}

// cause is the innermost error: what the operating system says.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
