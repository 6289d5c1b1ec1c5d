package inbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// KeyFiles are the PEM files of a listener that speaks TLS.
type KeyFiles struct {
	// Cert has the certificate, followed by its intermediate authorities, and Key the private key.
	Cert, Key string
	// ClientCA has the authorities of client certificates. If it is set, clients must have one.
	ClientCA string
}

// Keys holds the certificate, the private key and the client authorities of a listener, as its files contain them. Each new connection checks
// whether the files have changed. If the changed files cannot be used, for example because only one of them has been written yet, the old
// keys stay in use. Open connections keep the keys that they began with.
type Keys struct {
	files     KeyFiles
	protocols []string // for ALPN, the preferred one first
	log       *slog.Logger

	mu            sync.Mutex
	currentConfig *tls.Config
	currentFiles  []fs.FileInfo // the files that currentConfig was read from
	problem       string        // why the changed files are not used; "" if the files have not changed or are used
}

// NewKeys reads the files. protocols are those for ALPN, the preferred one first.
func NewKeys(files KeyFiles, log *slog.Logger, protocols ...string) (*Keys, error) {
	k := &Keys{files: files, protocols: protocols, log: log}
	var err error
	if k.currentFiles, err = files.stat(); err != nil {
		return nil, err
	}
	k.currentConfig, err = k.read()
	return k, err
}

// Config returns the configuration for a server. It stays valid when the files change.
func (k *Keys) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: k.protocols, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		return k.latest(h.Context()), nil
	}}
}

// latest returns the configuration of the files or, if they cannot be used, of their last usable version.
func (k *Keys) latest(ctx context.Context) *tls.Config {
	k.mu.Lock()
	defer k.mu.Unlock()
	infos, err := k.files.stat()
	if err == nil && k.problem == "" && sameFiles(infos, k.currentFiles) {
		return k.currentConfig
	}
	var next *tls.Config
	if err == nil {
		next, err = k.read()
	}
	if err != nil {
		if problem := err.Error(); problem != k.problem {
			k.problem = problem
			k.log.WarnContext(ctx, "the changed TLS files cannot be used, keeping the old ones", slog.Any("error", err))
		}
		return k.currentConfig
	}
	k.currentConfig, k.currentFiles, k.problem = next, infos, ""
	k.log.InfoContext(ctx, "TLS files changed", slog.String("cert", k.files.Cert), slog.Time("expires", next.Certificates[0].Leaf.NotAfter))
	return next
}

// read returns the configuration of the files.
func (k *Keys) read() (*tls.Config, error) {
	pair, err := k.files.Load()
	if err != nil {
		return nil, err
	}
	if time.Now().After(pair.Leaf.NotAfter) {
		k.log.Warn("the TLS certificate has expired", slog.String("cert", k.files.Cert), slog.Time("expires", pair.Leaf.NotAfter))
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: k.protocols, Certificates: []tls.Certificate{pair}}
	if k.files.ClientCA != "" {
		c.ClientAuth = tls.RequireAndVerifyClientCert
		c.ClientCAs, err = ReadAuthorities(k.files.ClientCA)
	}
	return c, err
}

// Load returns the certificate with its key.
func (f KeyFiles) Load() (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return pair, fmt.Errorf("cannot read the TLS certificate %s and its key %s: %w", f.Cert, f.Key, err)
	}
	return pair, nil
}

// ReadAuthorities returns the certificates of the authorities in a PEM file.
func ReadAuthorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s contains no certificate in PEM format", file)
	}
	return pool, nil
}

// stat returns the infos of the files that are configured, always in the same order. It follows symbolic links, so that a link that
// leads to another file counts as a change.
func (f KeyFiles) stat() (infos []fs.FileInfo, err error) {
	for _, file := range []struct{ setting, name string }{{"tls.cert", f.Cert}, {"tls.key", f.Key}, {"tls.client_ca", f.ClientCA}} {
		if file.name == "" {
			continue
		}
		info, err := os.Stat(file.name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.setting, err)
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// sameFiles reports whether no file has changed. Both lists are from the same KeyFiles.
func sameFiles(a, b []fs.FileInfo) bool {
	return slices.EqualFunc(a, b, func(x, y fs.FileInfo) bool {
		return os.SameFile(x, y) && x.ModTime().Equal(y.ModTime()) && x.Size() == y.Size()
	})
}
