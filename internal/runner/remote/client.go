package remote

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"fleet/gen/fleet/runner/v1/runnerv1connect"
	"fleet/internal/fleet"
)

// ClientConfig configures a Client. URL and Key are required.
type ClientConfig struct {
	URL     string             // the runner's URL, which may have a path
	Key     ed25519.PrivateKey // Fleet's private key
	HTTP    *http.Client       // nil means http.DefaultClient; if its transport returns a *fleet.Error, the call returns it
	Version string             // Fleet's version, which handshakes send
	// RetryTimeout is how long a runner may be unreachable before a call fails. 0 means 30 s.
	RetryTimeout time.Duration
	// IdleTimeout is how long a stream may be silent before its connection counts as broken. 0 means 15 s. Coder's app
	// proxy does not close a connection when the workspace's agent disappears.
	IdleTimeout time.Duration
	// MaxWait limits the duration of each stream of Follow, of Check and of a Repository. The call then continues with another
	// stream. 0 means no limit.
	MaxWait time.Duration
	// JSON makes the client use uncompressed JSON messages, which are readable in recordings.
	JSON bool
	Now  func() time.Time // nil means time.Now
}

const (
	defaultRetryTimeout = 30 * time.Second
	defaultIdleTimeout  = 3 * defaultHeartbeat
	minRetryPause       = 50 * time.Millisecond
	maxRetryPause       = 5 * time.Second
)

// Client calls one runner.
type Client struct {
	config ClientConfig
	rpc    runnerv1connect.RunnerServiceClient

	mu      sync.Mutex
	session *session // nil until the first handshake
}

// NewClient creates a Client. It makes no request.
func NewClient(c ClientConfig) *Client {
	if c.HTTP == nil {
		c.HTTP = http.DefaultClient
	}
	if c.RetryTimeout == 0 {
		c.RetryTimeout = defaultRetryTimeout
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = defaultIdleTimeout
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	cl := &Client{config: c}
	options := []connect.ClientOption{connect.WithReadMaxBytes(maxResponse)}
	if c.JSON {
		options = append(options, connect.WithProtoJSON(), connect.WithAcceptCompression("gzip", nil, nil))
	}
	cl.rpc = runnerv1connect.NewRunnerServiceClient(signingClient{c.HTTP, cl}, strings.TrimRight(c.URL, "/"), options...)
	return cl
}

// maxWait returns ClientConfig.MaxWait for a request, or nil for no limit.
func (c *Client) maxWait() *durationpb.Duration {
	if c.config.MaxWait <= 0 {
		return nil
	}
	return durationpb.New(c.config.MaxWait)
}

// maxResponse limits a runner's message, in bytes. The largest message is an outcome with its payload.
const maxResponse = 64 << 20

// requestAgentKey is the key of a context for the uid of the agent for which requests are signed.
type requestAgentKey struct{}

// signingClient sends the requests of a Client. It signs those whose context holds the uid of an agent.
type signingClient struct {
	base   *http.Client
	client *Client
}

// Do implements connect.HTTPClient.
func (s signingClient) Do(req *http.Request) (*http.Response, error) {
	if uid, ok := req.Context().Value(requestAgentKey{}).(string); ok {
		session, err := s.client.handshake(req.Context(), uid)
		if err != nil {
			return nil, err
		}
		if err := sign(req, s.client.config.Key, uid, session.instance, s.client.config.Now().Add(session.clockSkew+requestLifetime)); err != nil {
			return nil, err
		}
	}
	res, err := s.base.Do(req)
	if err != nil || res.StatusCode == http.StatusOK {
		return res, err
	}
	return readErrorBody(res)
}

// maxErrorBody is how much of the body of a response that is not OK is read, in bytes.
const maxErrorBody = 1 << 20

// readErrorBody reads the body of a response that reports an error. It fails if the body is incomplete, which Connect does not
// notice: Connect would treat an incomplete "not found" as the answer of an older runner that does not have the method.
func readErrorBody(res *http.Response) (*http.Response, error) {
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// errRetry means that the call must be repeated: the connection broke, so that it is unknown whether the runner has handled the request, or
// the runner refused the request's signature because it has restarted or the request came too late.
var errRetry = errors.New("the connection to the runner broke")

// classify converts the error of a call. The result wraps errRetry if the call must be repeated.
func (c *Client) classify(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e := fromFault(err); e != nil {
		switch e.Metadata[refusalKey] {
		case refusedInstance, refusedExpired:
			c.forgetSession()
			return errors.Join(errRetry, e)
		}
		return e
	}
	if e, ok := errors.AsType[*fleet.Error](err); ok {
		return e
	}
	if permanent := permanentError(err); permanent != nil {
		return permanent
	}
	return errors.Join(errRetry, err)
}

// permanentError returns an error for the caller if a repeated call would fail like err, and otherwise nil. err must not be from
// the runner's methods.
func permanentError(err error) error {
	switch connect.CodeOf(err) {
	case connect.CodeUnimplemented:
		return fleet.Errorf(fleet.ReasonUnimplemented, "the runner of the agent cannot do this: restart its workspace with a newer fleet-runner").WithCause(err)
	case connect.CodeUnauthenticated, connect.CodePermissionDenied:
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "a proxy between Fleet and the runner of the agent refuses requests: %s", connect.CodeOf(err)).WithCause(err)
	}
	return nil
}

// callWithRetry repeats a call until the runner answers or was unreachable for too long.
func (c *Client) callWithRetry(ctx context.Context, a fleet.Agent, call func(context.Context) error) error {
	ctx = context.WithValue(ctx, requestAgentKey{}, a.UID)
	t := c.newRetrier(a)
	for {
		err := call(ctx)
		if err == nil {
			return nil
		}
		if err := t.waitForRetry(ctx, err); err != nil {
			return err
		}
	}
}

// retrier decides whether and when a call is repeated.
type retrier struct {
	client    *Client
	agent     fleet.Agent
	startedAt time.Time
	pause     time.Duration // before the next attempt
}

func (c *Client) newRetrier(a fleet.Agent) *retrier {
	return &retrier{client: c, agent: a, startedAt: c.config.Now(), pause: minRetryPause}
}

// waitForRetry waits until the next attempt. It returns an error if the call must not be repeated.
func (r *retrier) waitForRetry(ctx context.Context, err error) error {
	if err = r.client.classify(ctx, err); !errors.Is(err, errRetry) {
		return err
	}
	if r.client.config.Now().Sub(r.startedAt) >= r.client.config.RetryTimeout {
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "the runner of the agent %q does not answer", r.agent.Name).WithCause(err)
	}
	pause := r.pause
	r.pause = min(2*r.pause, maxRetryPause)
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
