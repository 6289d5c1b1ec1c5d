package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/time/rate"
)

// algorithms are the algorithms with which a token may be signed. All are asymmetric: with a shared secret, anyone who
// can verify a token could also create one.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// algorithmNames are the names of the algorithms.
var algorithmNames = func() (names []string) {
	for _, a := range algorithms {
		names = append(names, string(a))
	}
	return names
}()

// A token can name a key that does not exist. These limit how often such tokens make the server fetch the issuer's
// keys: fetchBurst times at once, then once every fetchInterval.
const (
	fetchInterval = 10 * time.Second
	fetchBurst    = 3
)

// maxDocumentBytes is how many bytes getJSON reads of a document.
const maxDocumentBytes = 1 << 20

// errForged means that a token is not a JWT that a key of the issuer has signed.
var errForged = errors.New("the token is not signed with a key of the issuer")

// keys are the public keys of the issuer.
type keys struct {
	url    string
	client *http.Client
	limit  *rate.Limiter // limits fetches for tokens with unknown keys

	mu      sync.Mutex
	current []jose.JSONWebKey
}

// verifySignature returns the payload of the token if a key of the issuer has signed it. Otherwise it returns
// errForged. It returns another error if the keys cannot be fetched.
func (k *keys) verifySignature(ctx context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil || len(signed.Signatures) != 1 {
		return nil, errForged
	}
	payload, known := k.verify(signed)
	if payload == nil && !known && k.limit.Allow() {
		if err := k.fetch(context.WithoutCancel(ctx)); err != nil { // a cancelled caller must not count as a failure of the issuer; the client has its own timeout
			return nil, err
		}
		payload, _ = k.verify(signed)
	}
	if payload == nil {
		return nil, errForged
	}
	return payload, nil
}

// recordingKeySet checks the signature of one token. It keeps the error of the check, because the library returns only the
// text of the error.
type recordingKeySet struct {
	keys *keys
	err  error
}

// VerifySignature implements oidc.KeySet.
func (s *recordingKeySet) VerifySignature(ctx context.Context, token string) (payload []byte, err error) {
	payload, s.err = s.keys.verifySignature(ctx, token)
	return payload, s.err
}

// verify returns the payload if a current key verifies the signature, or else nil. known reports whether the token names a
// current key. If it does, fetching the keys again cannot help.
func (k *keys) verify(signed *jose.JSONWebSignature) (payload []byte, known bool) {
	k.mu.Lock()
	current := k.current
	k.mu.Unlock()
	id := signed.Signatures[0].Header.KeyID
	for _, key := range current {
		if id != "" && key.KeyID != id {
			continue
		}
		known = known || id != ""
		if payload, err := signed.Verify(key); err == nil {
			return payload, true
		}
	}
	return nil, known
}

// fetch fetches the issuer's keys and replaces the current keys with them.
func (k *keys) fetch(ctx context.Context) error {
	var set struct{ Keys []json.RawMessage }
	if _, err := getJSON(ctx, k.client, k.url, &set); err != nil {
		return err
	}
	var fetched []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey // keys that cannot be decoded are skipped, since the set may have keys of unknown kinds
		if json.Unmarshal(raw, &key) == nil && key.IsPublic() && key.Use != "enc" {
			fetched = append(fetched, key)
		}
	}
	if len(fetched) == 0 {
		return fmt.Errorf("%s has no key that can verify tokens", k.url)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current = fetched
	return nil
}

// getJSON requests the URL and decodes the response into to. It returns the header of the response; nil if there
// was no response.
func getJSON(ctx context.Context, c *http.Client, url string, to any) (http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return resp.Header, fmt.Errorf("%s answered %s", url, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxDocumentBytes)).Decode(to); err != nil {
		return resp.Header, fmt.Errorf("%s did not answer with JSON: %w", url, err)
	}
	return resp.Header, nil
}
