package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/place/peer"
	"fleet/internal/scratch"
)

// replicaFile is the file in the data directory with the name of the server.
const replicaFile = "replica"

var (
	replicaName      = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,38}[a-z0-9])?$`)
	invalidNameChars = regexp.MustCompile(`[^a-z0-9-]+`)
)

// withReplica returns the configuration with the name of this server in Replica. The name is empty with SQLite, whose
// store is not shared. If no name is configured, withReplica makes one and keeps it in the data directory. It returns an
// error if the SQLite store must not be used any more; see checkImported.
func (c Config) withReplica() (Config, error) {
	switch {
	case c.Store == "":
		c.Replica = "" // only processes with the same data directory can use a SQLite store
		return c, c.checkImported()
	case c.Replica != "":
		return c, nil
	}
	path := filepath.Join(c.Data, replicaFile)
	name, err := readOrCreate(path, newReplicaName)
	if err != nil {
		return c, err
	}
	c.Replica = name
	if !replicaName.MatchString(c.Replica) {
		return c, fmt.Errorf("%s has %q, which is not a name of a server: see replica in fleet.yaml", path, c.Replica)
	}
	return c, nil
}

// newReplicaName returns the host name of this machine, shortened, with a random ending.
func newReplicaName() string {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	host = strings.Trim(invalidNameChars.ReplaceAllString(host, "-"), "-")
	return strings.Trim(host[:min(len(host), 30)]+"-"+strings.ToLower(rand.Text()[:4]), "-")
}

// readOrCreate returns the text in the file. If the file does not exist, it creates the file with the result of text. If
// another process creates it meanwhile, readOrCreate returns that process's text.
func readOrCreate(path string, text func() string) (string, error) {
	kept, err := os.ReadFile(path) //nolint:gosec // in our data directory
	if errors.Is(err, fs.ErrNotExist) {
		if err := newFile(path, text()); err != nil {
			return "", err
		}
		kept, err = os.ReadFile(path) //nolint:gosec // in our data directory
	}
	return strings.TrimSpace(string(kept)), err
}

// newFile writes the text into a new file. If the file exists already, newFile leaves it unchanged and returns nil.
func newFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	name, err := scratch.WriteTemp(path, []byte(text+"\n"))
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(name) }()
	if err := os.Link(name, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// openPeers returns the peers of this server, or nil if the store cannot be shared.
func (a *App) openPeers(ctx context.Context) (*peer.Peers, error) {
	if a.cfg.Replica == "" {
		return nil, nil
	}
	return peer.New(ctx, peer.Config{
		Replica: a.cfg.Replica, Version: Version(), Lease: serverLeaseTTL, Store: a.store, Place: func(name string) fleet.Place { return a.ownPlaces[name] },
		Transport: func(t http.RoundTripper) http.RoundTripper { return outboundTransport{t} }, Log: a.log,
	})
}
