package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// replicaFile has the name of the server in its data directory, where its agents are too.
const replicaFile = "replica"

var (
	replicaName    = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,38}[a-z0-9])?$`)
	notReplicaName = regexp.MustCompile(`[^a-z0-9-]+`)
)

// withReplica returns the configuration with the name of this server, if it may share its store with others. A name that
// is not configured is made once for the data directory.
func (c Config) withReplica() (Config, error) {
	switch {
	case c.Store == "":
		c.Replica = "" // a SQLite store is shared by servers of one machine and one data directory
		return c, nil
	case c.Replica != "":
		return c, nil
	}
	path := filepath.Join(c.Data, replicaFile)
	name, err := os.ReadFile(path) //nolint:gosec // in our data directory
	if errors.Is(err, fs.ErrNotExist) {
		if err := newReplicaFile(path); err != nil {
			return c, err
		}
		name, err = os.ReadFile(path) //nolint:gosec // as above
	}
	if err != nil {
		return c, err
	}
	c.Replica = strings.TrimSpace(string(name))
	if !replicaName.MatchString(c.Replica) {
		return c, fmt.Errorf("%s has %q, which is not a name of a server: see replica in fleet.yaml", path, c.Replica)
	}
	return c, nil
}

// newReplicaFile writes a new name, unless another process does so meanwhile.
func newReplicaFile(path string) error {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	host = strings.Trim(notReplicaName.ReplaceAllString(host, "-"), "-")
	name := strings.Trim(host[:min(len(host), 30)]+"-"+strings.ToLower(rand.Text()[:4]), "-")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".replica-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(name + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
