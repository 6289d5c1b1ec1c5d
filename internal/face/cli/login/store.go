package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
	"github.com/zalando/go-keyring"

	"fleet/internal/scratch"
)

// Tokens are the tokens that an issuer gave to a person.
type Tokens struct {
	ID         string    `json:"id_token"`
	Refresh    string    `json:"refresh_token,omitempty"`
	Expiry     time.Time `json:"expiry"` // of the ID token
	PersonName string    `json:"who"`    // the person's name, to show to people
}

// Login is a stored sign-in to a server.
type Login struct {
	Server   string   `json:"server"`
	Issuer   string   `json:"issuer"`
	ClientID string   `json:"client_id"`
	Scopes   []string `json:"scopes"`
	// InKeyring says that the tokens are in the keyring. Then Tokens is nil.
	InKeyring bool    `json:"in_keyring,omitempty"`
	Tokens    *Tokens `json:"tokens,omitempty"`
}

// Store keeps logins. Each server has a file. The tokens are in the user's keyring, or in the file if there is no
// keyring or the keyring cannot store them.
type Store struct {
	// Dir is the directory of the files. If it is empty, there are no logins and none can be kept.
	Dir string
	// NoKeyring keeps the tokens in the files, even if there is a keyring.
	NoKeyring bool
}

// keyringService is the service name under which the tokens are in the keyring.
const keyringService = "fleet"

// Save stores the tokens of a sign-in to the server. inKeyring reports whether they are in the keyring.
func (s Store) Save(server string, i *Issuer, t Tokens) (inKeyring bool, err error) {
	if s.Dir == "" {
		return false, errors.New("there is no directory for it, because HOME is not set: set HOME or XDG_CONFIG_HOME")
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return false, err
	}
	unlock, err := s.lock(server)
	if err != nil {
		return false, err
	}
	defer unlock()
	return s.write(Login{Server: server, Issuer: i.URL, ClientID: i.config.ClientID, Scopes: i.config.Scopes}, t)
}

// write stores the login with the tokens. The caller holds the lock.
func (s Store) write(l Login, t Tokens) (inKeyring bool, err error) {
	l.InKeyring, l.Tokens = false, &t
	if !s.NoKeyring && hasKeyring() {
		secret, err := json.Marshal(t)
		if err != nil {
			return false, err
		}
		if keyring.Set(keyringService, l.Server, string(secret)) == nil { // otherwise the keyring is locked, or the tokens are too long for it
			l.InKeyring, l.Tokens = true, nil
		}
	}
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return false, err
	}
	return l.InKeyring, scratch.WriteFile(s.file(l.Server), append(data, '\n'))
}

// Get returns the login to the server, or nil if there is none. It does not read the keyring.
func (s Store) Get(server string) (*Login, error) {
	if s.Dir == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	data, err := os.ReadFile(s.file(server))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, err
	}
	l := &Login{}
	if err := json.Unmarshal(data, l); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", s.file(server), err)
	}
	return l, nil
}

// readTokens returns the tokens of the login, which it may have to read from the keyring. It returns ErrSessionEnded if they are no longer
// there.
func readTokens(l *Login) (Tokens, error) {
	if l.Tokens != nil {
		return *l.Tokens, nil
	}
	var t Tokens
	secret, err := keyring.Get(keyringService, l.Server)
	if errors.Is(err, keyring.ErrNotFound) {
		return t, ErrSessionEnded
	}
	if err != nil {
		return t, fmt.Errorf("cannot read the keyring: %w", err)
	}
	return t, json.Unmarshal([]byte(secret), &t)
}

// minValidity is how long before its expiry a token is replaced.
const minValidity = 20 * time.Second

// Token returns an ID token for the server that is valid for at least minValidity. If the stored token expires earlier,
// Token gets a new one from the issuer and stores it. It returns ErrSessionEnded if the person is not signed in, or has to
// sign in again.
func (s Store) Token(ctx context.Context, server string, now func() time.Time) (string, error) {
	if _, t, err := s.read(server); err != nil || t.isValid(now()) {
		return t.ID, err
	}
	unlock, err := s.lock(server) // an issuer may accept a refresh token only once
	if err != nil {
		return "", err
	}
	defer unlock()
	l, t, err := s.read(server)
	if err != nil || t.isValid(now()) { // another command has refreshed it meanwhile
		return t.ID, err
	}
	if t.Refresh == "" {
		return "", ErrSessionEnded
	}
	i, err := discover(ctx, l.Issuer, l.ClientID, l.Scopes)
	if err != nil {
		return "", err
	}
	save := func(t Tokens) error {
		_, err := s.write(*l, t)
		return err
	}
	if t, err = i.refresh(ctx, t, save); err != nil {
		return "", err
	}
	return t.ID, save(t)
}

// isValid reports whether the ID token is valid for at least minValidity after now.
func (t Tokens) isValid(now time.Time) bool {
	return t.ID != "" && now.Add(minValidity).Before(t.Expiry)
}

// read returns the login to the server with its tokens, or ErrSessionEnded if there is no login.
func (s Store) read(server string) (*Login, Tokens, error) {
	l, err := s.Get(server)
	if err != nil {
		return nil, Tokens{}, err
	}
	if l == nil {
		return nil, Tokens{}, ErrSessionEnded
	}
	t, err := readTokens(l)
	return l, t, err
}

// Forget asks the issuer to end the session, and removes the login to the server. found is false if there was no login, or if it could not
// be read, locked or removed. If the issuer does not end the session, Forget still removes the login, and err says why.
func (s Store) Forget(ctx context.Context, server string) (found bool, err error) {
	if l, err := s.Get(server); err != nil || l == nil { // then there is nothing to lock
		return false, err
	}
	unlock, err := s.lock(server)
	if err != nil {
		return false, err
	}
	defer unlock()
	l, err := s.Get(server) // another command may have renewed the tokens meanwhile
	if err != nil || l == nil {
		return false, err
	}
	t, err := readTokens(l)
	if err == nil {
		var i *Issuer
		if i, err = discover(ctx, l.Issuer, l.ClientID, nil); err == nil {
			err = i.Revoke(ctx, t)
		}
	}
	if errors.Is(err, ErrSessionEnded) {
		err = nil
	}
	if l.InKeyring {
		if err := keyring.Delete(keyringService, server); err != nil && !errors.Is(err, keyring.ErrNotFound) {
			return false, fmt.Errorf("the sign-in cannot be removed from the keyring: %w", err)
		}
	}
	if err := os.Remove(s.file(server)); err != nil {
		return false, fmt.Errorf("the sign-in cannot be removed: %w", err)
	}
	return true, err
}

// lock keeps other commands from changing the login to the server until unlock is called.
func (s Store) lock(server string) (unlock func(), err error) {
	return lockedfile.MutexAt(s.file(server) + ".lock").Lock()
}

// file returns the path of the server's file.
func (s Store) file(server string) string {
	name := strings.NewReplacer(":", "_", "/", "_", "[", "", "]", "").Replace(server)
	return filepath.Join(s.Dir, name+".json")
}

// hasKeyring reports whether there may be a keyring. On Linux, it returns false without a D-Bus session bus, because a query for the keyring
// could then start one.
func hasKeyring() bool {
	if runtime.GOOS != "linux" || os.Getenv("DBUS_SESSION_BUS_ADDRESS") != "" {
		return true
	}
	_, err := os.Stat(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "bus"))
	return err == nil && os.Getenv("XDG_RUNTIME_DIR") != ""
}

// TokenSource provides tokens for calls to one server.
type TokenSource struct {
	Store  Store
	Server string
}

// Current returns the stored ID token for the source's server if it is still valid, and "" otherwise. Unlike Token, it never asks
// the issuer.
func (s *TokenSource) Current() string {
	if _, t, err := s.Store.read(s.Server); err == nil && t.isValid(time.Now()) {
		return t.ID
	}
	return ""
}

// Token returns an ID token for the source's server, as Store.Token does.
func (s *TokenSource) Token(ctx context.Context) (string, error) {
	return s.Store.Token(ctx, s.Server, time.Now)
}
