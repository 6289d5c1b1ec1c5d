package oidc

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"fleet/internal/fleet"
	"fleet/internal/identity"
)

const (
	// refreshInterval is how often the server fetches the issuer's endpoints and keys. While the issuer answers, the server accepts a
	// withdrawn key for at most this long.
	refreshInterval = 15 * time.Minute
	// retryInterval is how often the server retries an issuer that does not answer.
	retryInterval = 5 * time.Second
	// requestTimeout is how long the issuer may take to answer a request.
	requestTimeout = 10 * time.Second
)

// Issuer is a client of the issuer. It keeps the metadata and keys that the issuer has published. The issuer need not
// be reachable when the server starts.
type Issuer struct {
	config        Config
	recordSubject identity.RecordSubject
	log           *slog.Logger
	now           func() time.Time
	client        *http.Client
	limit         *rate.Limiter // limits fetches of keys for tokens with unknown keys
	fetches       singleflight.Group

	mu           sync.Mutex
	metadata     *metadata // nil until the issuer has answered once
	fetchedAt    time.Time // when the issuer last answered
	failedAt     time.Time // when the last attempt failed; zero if it succeeded
	failingSince time.Time // since when the issuer cannot be reached; zero while it answers

	ctx    context.Context //nolint:containedctx // Stop ends it; it bounds the requests that several callers share
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine of Start has ended; nil before Start
}

// metadata has the endpoints and the keys that the issuer publishes.
type metadata struct {
	provider *oidc.Provider
	keys     *keys
	// offlineAccess is set if the issuer supports the scope offline_access, which refresh tokens need.
	offlineAccess bool
	endSessionURL string // the address at which the issuer ends a browser's session; "" if it has none
}

// New returns an Issuer. It sends no request. It returns an error if the configuration is invalid or the file with the client's secret
// cannot be read.
func New(config Config, recordSubject identity.RecordSubject, log *slog.Logger, now func() time.Time) (*Issuer, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Issuer{
		config: config, recordSubject: recordSubject, log: log, now: now, ctx: ctx, cancel: cancel,
		client: &http.Client{Timeout: requestTimeout}, limit: rate.NewLimiter(rate.Every(fetchInterval), fetchBurst),
	}, nil
}

// Config returns the configuration with its defaults.
func (i *Issuer) Config() Config { return i.config }

// Start fetches the issuer's endpoints and keys in the background, now and periodically until Stop.
func (i *Issuer) Start() {
	i.done = make(chan struct{})
	go func() {
		defer close(i.done)
		for i.ctx.Err() == nil {
			if i.isDue() {
				_, _ = i.fetch(i.ctx) // fetch records the error itself
			}
			select {
			case <-time.After(retryInterval):
			case <-i.ctx.Done():
			}
		}
	}()
}

// isDue reports whether it is time to ask the issuer again.
func (i *Issuer) isDue() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.metadata == nil || !i.failingSince.IsZero() || i.now().Sub(i.fetchedAt) >= refreshInterval
}

// Stop ends the requests to the issuer, and waits until the goroutine of Start has ended.
func (i *Issuer) Stop() {
	i.cancel()
	if i.done != nil {
		<-i.done
	}
}

// Degraded returns one entry while the issuer or its keys cannot be reached, and nil otherwise.
func (i *Issuer) Degraded() []fleet.DegradedPart {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.failingSince.IsZero() {
		return nil
	}
	reason := "the issuer " + i.config.Issuer + " cannot be reached: nobody can sign in with it, and its tokens work only until its keys change"
	if i.metadata == nil {
		reason = "the issuer " + i.config.Issuer + " cannot be reached, and has not answered since the server started: its tokens are refused"
	}
	return []fleet.DegradedPart{{Part: "oidc", Since: i.failingSince, Reason: reason}}
}

// loadMetadata returns the metadata that the issuer has published. If the issuer has not answered yet, loadMetadata asks it, but
// not within retryInterval of a failed attempt.
func (i *Issuer) loadMetadata(ctx context.Context) (*metadata, error) {
	i.mu.Lock()
	m, failedAt := i.metadata, i.failedAt
	i.mu.Unlock()
	if m != nil {
		return m, nil
	}
	if i.now().Sub(failedAt) < retryInterval {
		return nil, i.unavailable(nil)
	}
	return i.fetch(ctx)
}

// fetch fetches the issuer's metadata and keys and stores them. Concurrent calls share one attempt.
func (i *Issuer) fetch(ctx context.Context) (*metadata, error) {
	result := i.fetches.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(i.ctx, 2*requestTimeout)
		defer cancel()
		m, err := i.discover(ctx)
		if i.ctx.Err() == nil {
			i.recordResult(err)
		}
		if err != nil {
			return nil, i.unavailable(err)
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.metadata, i.fetchedAt = m, i.now()
		return m, nil
	})
	select {
	case r := <-result:
		m, _ := r.Val.(*metadata)
		return m, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// discover fetches the issuer's metadata and keys.
func (i *Issuer) discover(ctx context.Context) (*metadata, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, i.client), i.config.Issuer)
	if err != nil {
		return nil, err
	}
	var document struct {
		KeysURL       string   `json:"jwks_uri"`
		Scopes        []string `json:"scopes_supported"`
		EndSessionURL string   `json:"end_session_endpoint"`
	}
	if err := provider.Claims(&document); err != nil {
		return nil, err
	}
	m := &metadata{provider: provider, endSessionURL: document.EndSessionURL, keys: &keys{url: document.KeysURL, client: i.client, limit: i.limit}}
	m.offlineAccess = slices.Contains(document.Scopes, oidc.ScopeOfflineAccess)
	return m, m.keys.fetch(ctx)
}

// recordResult records whether the issuer has answered. err is the error of the request. It logs when the issuer stops or
// starts answering.
func (i *Issuer) recordResult(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err == nil {
		if !i.failingSince.IsZero() {
			i.log.Info("oidc issuer answers again", slog.String("issuer", i.config.Issuer))
		}
		i.failingSince, i.failedAt = time.Time{}, time.Time{}
		return
	}
	i.failedAt = i.now()
	if i.failingSince.IsZero() {
		i.failingSince = i.failedAt
		i.log.Warn("oidc issuer cannot be reached, retrying", slog.String("issuer", i.config.Issuer), slog.Any("error", err))
	}
}

// unavailable returns the error for a token that cannot be checked now.
func (i *Issuer) unavailable(cause error) error {
	e := fleet.Errorf(fleet.ReasonBackendUnavailable, "the issuer %s cannot be reached, so its tokens cannot be checked: try again later", i.config.Issuer).WithCause(cause)
	e.RetryAfter = retryInterval
	return e
}
