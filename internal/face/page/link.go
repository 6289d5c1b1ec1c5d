package page

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// linkLifetime is how long a link of `fleet open` works, and linkSeconds is that time in seconds. maxTokenLinks is how many links of
// a token can be made in this time.
const (
	linkLifetime  = time.Minute
	linkSeconds   = int(linkLifetime / time.Second)
	maxTokenLinks = 10
)

// Leases are the leases that all servers of the fleet share; see fleet.Store.
type Leases interface {
	// AcquireLease takes or renews the lease on the key for the owner. It returns 0 if another owner has a lease that has not expired.
	AcquireLease(ctx context.Context, key, owner string, ttl time.Duration) (epoch int64, err error)
	// Leases returns the owners, by key, of the leases whose keys begin with the prefix and that have not expired.
	Leases(ctx context.Context, prefix string) (owners map[string]string, err error)
}

// links makes and redeems the codes of links. A code is the encrypted token, so it works at every server of the fleet, and no server
// keeps it. One lease says that a code has not expired, and another one that it was used.
type links struct {
	hashKey []byte // for the hashes of tokens in the keys of leases
	box     box
	leases  Leases
}

// These are the prefixes of the keys of leases. Neither a token nor a code can be derived from a key.
const (
	linkPrefix     = "link/"
	usedLinkPrefix = "link-used/"
)

// newLinks returns the links of the servers that have the key. Without a key, a code works only in this process.
func newLinks(key []byte, leases Leases) *links {
	secret := cmp.Or(string(key), rand.Text())
	return &links{hashKey: keyFor("page link lease", secret), box: newBox("page link", secret), leases: leases}
}

// newCode returns a code for the token. It returns "" if the token has maxTokenLinks codes that have not expired.
func (l *links) newCode(ctx context.Context, token string) (code string, err error) {
	prefix := l.prefix(token)
	owners, err := l.leases.Leases(ctx, prefix)
	if err != nil || len(owners) >= maxTokenLinks {
		return "", err
	}
	code = l.box.seal(token)
	_, err = l.leases.AcquireLease(ctx, prefix+codeHash(code), "open", linkLifetime)
	return code, err
}

// redeem returns the token of the code, once. It returns "" if there is no such code, or if it was used or has expired.
func (l *links) redeem(ctx context.Context, code string) (token string, err error) {
	token = l.box.open(code)
	if token == "" {
		return "", nil
	}
	key := l.prefix(token) + codeHash(code)
	if owners, err := l.leases.Leases(ctx, key); err != nil || owners[key] == "" {
		return "", err
	}
	epoch, err := l.leases.AcquireLease(ctx, usedLinkPrefix+codeHash(code), rand.Text(), 2*linkLifetime)
	if err != nil || epoch == 0 {
		return "", err
	}
	return token, nil
}

// prefix returns the prefix of the keys of the leases for links of the token.
func (l *links) prefix(token string) string {
	h := hmac.New(sha256.New, l.hashKey)
	_, _ = h.Write([]byte(token))
	return linkPrefix + hex.EncodeToString(h.Sum(nil)) + "/"
}

func codeHash(code string) string {
	sum := sha256.Sum256([]byte(code))
	return hex.EncodeToString(sum[:])
}
