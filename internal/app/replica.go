package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"fleet/internal/face/inbound"
	"fleet/internal/fleet"
	"fleet/internal/place/peer"
)

// replicaFile is the file in the data directory with the name of the server.
const replicaFile = "replica"

var (
	validReplicaName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,38}[a-z0-9])?$`)
	invalidNameChars = regexp.MustCompile(`[^a-z0-9-]+`)
)

// withReplica returns the configuration with the name of this server in Replica. The name is empty with SQLite, whose
// store is not shared. If no name is configured, withReplica makes one and keeps it in the data directory.
func (c Config) withReplica() (Config, error) {
	switch {
	case c.Store == "":
		c.Replica = "" // only processes with the same data directory can use a SQLite store
		return c, nil
	case c.Replica != "":
		return c, nil
	}
	path := filepath.Join(c.Data, replicaFile)
	name, err := readOrCreate(path, newReplicaName)
	if err != nil {
		return c, err
	}
	c.Replica = name
	if !validReplicaName.MatchString(c.Replica) {
		return c, fmt.Errorf("%s contains %q, which is not a valid server name: see replica in fleet.yaml", path, c.Replica)
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

// openPeers returns the peers of this server, or nil if the store cannot be shared.
func (a *App) openPeers(ctx context.Context) (*peer.Peers, error) {
	if a.cfg.Replica == "" {
		return nil, nil
	}
	return peer.New(ctx, peer.Config{
		Replica: a.cfg.Replica, Version: Version(), LeaseDuration: serverLeaseTTL, Store: a.store, Place: func(name string) fleet.Place { return a.ownPlaces[name] },
		WrapTransport: func(t http.RoundTripper) http.RoundTripper { return outboundTransport{t} }, Log: a.log,
		Listen:      func(addr string) (net.Listener, error) { return listenWithLimits(addr, a.inboundLimits) },
		ConnContext: inbound.WithConn, MarkKnown: admit,
	})
}
