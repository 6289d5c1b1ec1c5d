package inbound

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/face/inbound/certtest"
)

// certificateName returns the name in the certificate that a server with the keys shows a new client.
func certificateName(t *testing.T, k *Keys, ca *certtest.Authority) string {
	t.Helper()
	client, server := net.Pipe()
	defer func() { _, _ = client.Close(), server.Close() }()
	serverErr := make(chan error, 1)
	go func() { serverErr <- tls.Server(server, k.Config()).HandshakeContext(t.Context()) }()
	c := tls.Client(client, &tls.Config{RootCAs: ca.Pool, ServerName: "localhost", MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}})
	require.NoError(t, c.HandshakeContext(t.Context()))
	require.NoError(t, <-serverErr)
	require.Equal(t, "h2", c.ConnectionState().NegotiatedProtocol)
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

func TestKeysFollowTheirFiles(t *testing.T) {
	t.Parallel()
	ca, dir, log := certtest.New(t), t.TempDir(), &bytes.Buffer{}
	cert, key := ca.WriteFiles(t, dir, "first")
	k, err := NewKeys(KeyFiles{Cert: cert, Key: key}, slog.New(slog.NewTextHandler(log, nil)), "h2")
	require.NoError(t, err)
	require.Equal(t, "first", certificateName(t, k, ca))

	nextCert, nextKey := ca.Issue(t, "second", time.Now().Add(time.Hour))
	for _, content := range [][]byte{nextCert[:len(nextCert)/2], nil, []byte("no PEM"), nextCert} { // the key is still the old one
		require.NoError(t, os.WriteFile(cert, content, 0o600))
		require.Equal(t, "first", certificateName(t, k, ca))
		require.Equal(t, "first", certificateName(t, k, ca))
	}
	require.Equal(t, 1, strings.Count(log.String(), "private key does not match public key"), "each problem must be logged once: %s", log)
	require.NoError(t, os.WriteFile(key, nextKey, 0o600))
	require.Equal(t, "second", certificateName(t, k, ca))

	require.NoError(t, os.Remove(key))
	require.Equal(t, "second", certificateName(t, k, ca))
	ca.WriteFiles(t, dir, "third")
	require.Equal(t, "third", certificateName(t, k, ca))
	require.NotContains(t, log.String(), "PRIVATE KEY")
}

// TestKeysFollowLinks checks that the files may be links, and that a link may be replaced by another, as Kubernetes
// does with the files of a Secret.
func TestKeysFollowLinks(t *testing.T) {
	t.Parallel()
	ca, dir := certtest.New(t), t.TempDir()
	for _, name := range []string{"first", "second"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		ca.WriteFiles(t, filepath.Join(dir, name), name)
	}
	link := func(to string) {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, "..tmp")))
		require.NoError(t, os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
	}
	link("first")
	files := KeyFiles{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	require.NoError(t, os.Symlink("..data/tls.crt", files.Cert))
	require.NoError(t, os.Symlink("..data/tls.key", files.Key))
	k, err := NewKeys(files, slog.New(slog.DiscardHandler), "h2")
	require.NoError(t, err)
	require.Equal(t, "first", certificateName(t, k, ca))
	link("second")
	require.Equal(t, "second", certificateName(t, k, ca))
}

func TestKeysThatCannotBeRead(t *testing.T) {
	t.Parallel()
	ca, dir := certtest.New(t), t.TempDir()
	cert, key := ca.WriteFiles(t, dir, "first")
	for want, files := range map[string]KeyFiles{
		"none.pem":                              {Cert: filepath.Join(dir, "none.pem"), Key: key},
		"tls.crt and its key":                   {Cert: cert, Key: cert},
		"contains no certificate in PEM format": {Cert: cert, Key: key, ClientCA: key},
	} {
		_, err := NewKeys(files, slog.New(slog.DiscardHandler), "h2")
		require.ErrorContains(t, err, want)
	}
}
