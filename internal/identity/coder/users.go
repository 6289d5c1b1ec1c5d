package coder

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"sync"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/identity"
)

const (
	// cacheTime is how long Coder's answer about a token is used. A revoked token still works for at most that long.
	cacheTime = 30 * time.Second
	// failureCacheTime is how long a token is refused without a new request after Coder failed to answer. throttledCacheTime is
	// the same for Coder's rate limit.
	failureCacheTime   = 2 * time.Second
	throttledCacheTime = 10 * time.Second
	// maxCached is the largest number of answers in the cache.
	maxCached = 10000
)

// SourceName is the name of this source. The names of its principals and groups contain it.
const SourceName = "coder"

// Users is the source of the users of a Coder deployment. It is an identity.Source.
type Users struct {
	config        Config
	recordSubject identity.RecordSubject
	now           func() time.Time
	client        *client
	unknownTokens *unknownTokenLimiter
	network       func(ctx context.Context) netip.Prefix

	mu    sync.Mutex
	cache map[[sha256.Size]byte]*cacheEntry // by the hash of the token
}

// cacheEntry is the cached answer about a token.
type cacheEntry struct {
	done      chan struct{} // closed when the fields below are set
	principal fleet.Principal
	err       error
	expires   time.Time
	valid     bool // Coder's last answer accepted the token, and its holder had a role
}

// Options are optional dependencies of Users. The zero value works.
type Options struct {
	Transport http.RoundTripper // sends the requests to Coder; nil: a copy of http.DefaultTransport
	Now       func() time.Time  // nil: time.Now
	// Network returns the network of a call's sender. nil means that all calls come from one network.
	Network func(ctx context.Context) netip.Prefix
}

// New returns the source. It makes no request. It returns an error if the configuration is invalid or names no deployment.
func New(config Config, recordSubject identity.RecordSubject, o Options) (*Users, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	u, err := url.Parse(config.URL)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("auth contains coder, but no Coder deployment is configured: set coder_auth.url, coder.url or CODER_URL")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Network == nil {
		o.Network = func(context.Context) netip.Prefix { return netip.Prefix{} }
	}
	return &Users{
		config: config, recordSubject: recordSubject, now: o.Now, client: newClient(u, o.Transport),
		unknownTokens: newUnknownTokenLimiter(), network: o.Network, cache: map[[sha256.Size]byte]*cacheEntry{},
	}, nil
}

// sessionTokenPattern is the form of Coder's API keys: ID-SECRET.
var sessionTokenPattern = regexp.MustCompile(`^[A-Za-z0-9]{10}-[A-Za-z0-9]{22}$`)

// Credentials implements identity.Source.
func (u *Users) Credentials() string { return "Coder session tokens of " + u.config.URL }

// Recognizes implements identity.Source.
func (u *Users) Recognizes(secret string) bool { return sessionTokenPattern.MatchString(secret) }

// Authenticate implements identity.Source. Concurrent calls with the same token share one request to Coder.
func (u *Users) Authenticate(ctx context.Context, secret string) (fleet.Principal, error) {
	key := sha256.Sum256([]byte(secret))
	u.mu.Lock()
	old := u.cache[key]
	entry := old
	if old == nil || old.isExpired(u.now()) {
		entry = &cacheEntry{done: make(chan struct{})}
		u.evict()
		u.cache[key] = entry
		go u.check(context.WithoutCancel(ctx), secret, entry, old)
	}
	u.mu.Unlock()
	select {
	case <-entry.done:
		return entry.principal, entry.err
	case <-ctx.Done():
		return fleet.Principal{}, ctx.Err()
	}
}

// isExpired reports whether the answer is outdated, so that Coder must be asked again.
func (c *cacheEntry) isExpired(now time.Time) bool {
	select {
	case <-c.done:
		return !now.Before(c.expires)
	default:
		return false
	}
}

// wasRefused reports whether the answer is known and refuses the token.
func (c *cacheEntry) wasRefused() bool {
	select {
	case <-c.done:
		return !c.valid
	default:
		return false
	}
}

// check asks Coder about the token, if the limit of unknown tokens allows it, and sets the fields of entry. old is the previous entry of
// the token; nil if there is none.
func (u *Users) check(ctx context.Context, secret string, entry, old *cacheEntry) {
	defer close(entry.done)
	begun := u.now()
	valid := old != nil && old.valid
	if valid || u.unknownTokens.allow(begun, u.network(ctx)) {
		entry.principal, entry.err = u.identify(ctx, secret)
	} else {
		entry.err = unavailable("too many unknown Coder tokens were sent to this server", failureCacheTime)
	}
	switch e, _ := errors.AsType[*fleet.Error](entry.err); {
	case entry.err == nil:
		entry.valid, entry.expires = true, begun.Add(cacheTime)
		if end := entry.principal.ExpiresAt; !end.IsZero() && end.Before(entry.expires) {
			entry.expires = end
		}
	case e != nil && (e.Reason == fleet.ReasonUnauthenticated || e.Reason == fleet.ReasonPermissionDenied):
		entry.expires = begun.Add(cacheTime)
	case e != nil: // Coder has not answered, so the token may still be valid
		entry.valid, entry.expires = valid, begun.Add(max(e.RetryAfter, failureCacheTime))
	default: // the store has failed
		entry.valid, entry.expires = valid, begun.Add(failureCacheTime)
	}
}

// evict deletes answers if there are too many: first those that refuse a token, then outdated ones, then any. So an outdated answer
// about a valid token stays longer than a refusal: without it, the token competes with invented tokens for the requests that
// unknownTokens allows.
// The caller holds the lock.
func (u *Users) evict() {
	if len(u.cache) < maxCached {
		return
	}
	now := u.now()
	for key, entry := range u.cache {
		if entry.isExpired(now) && !entry.valid {
			delete(u.cache, key)
		}
	}
	for _, mayDelete := range []func(*cacheEntry) bool{(*cacheEntry).wasRefused, func(entry *cacheEntry) bool { return entry.isExpired(now) }, func(*cacheEntry) bool { return true }} {
		for key, entry := range u.cache { // in random order, so that an attacker cannot choose which answers are deleted
			if len(u.cache) < maxCached {
				return
			}
			if mayDelete(entry) {
				delete(u.cache, key)
			}
		}
	}
}

// identify asks Coder for the holder of the token and returns the holder's principal.
func (u *Users) identify(ctx context.Context, secret string) (fleet.Principal, error) {
	who, err := u.client.whois(ctx, secret)
	if err != nil {
		return fleet.Principal{}, err
	}
	scope, ok := u.config.Roles.Scope(append(who.roles, who.groups...), u.config.DefaultRole)
	if !ok { // checked before the user gets a name, which is permanent
		return fleet.Principal{}, fleet.Errorf(fleet.ReasonPermissionDenied, "the Coder user %q has no role on this server", fleet.Shorten(who.name, 80)).
			Next("ask for a role, or to be added to a group, that coder_auth.roles lists in the server's configuration")
	}
	p := fleet.Principal{Scope: scope, ExpiresAt: who.expires}
	for _, g := range who.groups {
		p.Groups = append(p.Groups, SourceName+":"+g)
	}
	p.Name, err = u.recordSubject(ctx, fleet.Subject{Source: SourceName, ID: who.id, Name: who.name, Groups: p.Groups})
	return p, err
}

// Close ends idle connections.
func (u *Users) Close() { u.client.http.CloseIdleConnections() }

// unavailable returns the error for a token that cannot be checked now. The caller should try again after the duration after.
func unavailable(why string, after time.Duration) error {
	e := fleet.Errorf(fleet.ReasonBackendUnavailable, "the Coder token cannot be checked now: %s; try again", why)
	e.RetryAfter = after
	return e
}
