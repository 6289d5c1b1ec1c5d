package app

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"fleet/internal/face/inbound"
)

// metricsPath is the URL path at which Prometheus reads metrics.
const metricsPath = "/metrics"

// metricsServer answers Prometheus on an address of its own.
type metricsServer struct {
	listener net.Listener
	http     *http.Server
}

// listenMetrics opens the metrics address, with TLS if keys is not nil. It returns nil if no metrics address is
// configured.
func (a *App) listenMetrics(keys *inbound.Keys) (*metricsServer, error) {
	if a.cfg.Metrics == "" {
		return nil, nil //nolint:nilnil // documented
	}
	handler := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admit(r.Context()) // the request had the token, or needs none
		a.telemetry.ServeHTTP(w, r)
	}))
	if file := a.cfg.MetricsTokenFile; file != "" {
		if _, err := readMetricsToken(file); err != nil {
			return nil, err
		}
		handler = a.withToken(file, handler)
	}
	l, err := listenWithLimits(a.cfg.Metrics, a.inboundLimits)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on the metrics address %s: %w", a.cfg.Metrics, err)
	}
	if keys != nil {
		l = tls.NewListener(l, keys.Config())
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+metricsPath, handler)
	return &metricsServer{listener: l, http: &http.Server{
		Handler: mux, ReadTimeout: connectTimeout, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeader,
		ConnContext: inbound.WithConn,
		ErrorLog:    slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}}, nil
}

// readMetricsToken returns the token in the file, or an error if the file has none.
func readMetricsToken(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("metrics_token_file cannot be read: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("metrics_token_file %s is empty: put a long random text into it, for example the output of `openssl rand -hex 32`", file)
	}
	return token, nil
}

// withToken returns a handler that passes requests with the token in the file on to next. It reads the file for each
// request, so the token can be replaced without a restart.
func (a *App) withToken(file string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, err := readMetricsToken(file)
		if err != nil {
			a.log.WarnContext(r.Context(), "metrics refused", slog.Any("error", err))
			http.Error(w, "the server cannot read its metrics_token_file", http.StatusServiceUnavailable)
			return
		}
		want, got := sha256.Sum256([]byte("Bearer "+token)), sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(want[:], got[:]) == 0 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "send the token of metrics_token_file as \"Authorization: Bearer TOKEN\"", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serve answers requests until close is called. It then returns nil.
func (m *metricsServer) serve() error {
	if err := m.http.Serve(m.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// close closes the listener and its connections. It does nothing if m is nil.
func (m *metricsServer) close() error {
	if m == nil {
		return nil
	}
	return errors.Join(m.http.Close(), ignoreClosed(m.listener.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
