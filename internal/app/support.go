package app

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"fleet/internal/face/cli"
)

const (
	// supportLogPath and supportGoroutinesPath are the URL paths at which admins read the server's recent log and its
	// goroutines, for support bundles.
	supportLogPath        = "/support/log"
	supportGoroutinesPath = "/support/goroutines"
	// maxAnswerBytes limits how many bytes of each answer of a server are read.
	maxAnswerBytes = 16 << 20
)

// serveSupport answers the requests of `fleet support-bundle`.
func (a *App) serveSupport(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Path == supportLogPath {
		_, _ = w.Write(a.recent.text()) // the client may have disconnected
		return
	}
	_ = pprof.Lookup("goroutine").WriteTo(w, 1) // functions, without arguments; the client may have disconnected
}

func (p *program) newSupportBundle() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "support-bundle [FILE]",
		GroupID: cli.GroupServer,
		Short:   "Pack what somebody needs to find out what is wrong",
		Long: `Write a tar.gz with the version, the configuration, the report of "fleet doctor" and, of
a running server, its health, metrics, recent log and goroutines. Texts of the configuration
that may be secrets are hidden, and no task, output, token or environment is in it. The
log has names of agents and principals: read the bundle before you pass it on.

Run it like "fleet doctor": on the server's machine, as its user, in its directory and
environment. If the server requires tokens, give an admin's token with --token-file.`,
		Example: `  fleet support-bundle
  fleet support-bundle --token-file ~/.fleet-token bundle.tar.gz`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := cli.TargetOf(cmd)
			if err != nil {
				return err
			}
			to := "fleet-support-" + time.Now().UTC().Format("20060102-150405") + ".tar.gz"
			if len(args) > 0 {
				to = args[0]
			}
			f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			p.environ = withData(p.environ, cmd.Flag("data").Value.String())
			if err = errors.Join(p.writeBundle(cmd.Context(), f, file, t.Token), f.Close()); err != nil {
				return errors.Join(err, os.Remove(to))
			}
			_, err = fmt.Fprintf(p.stdout, "Wrote %s. Read it before you pass it on.\n", to)
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "pack the settings in `FILE` (FLEET_CONFIG)")
	return cmd
}

// writeBundle writes the bundle of the server on this machine. file has its settings, as in Load. If a request to the
// server fails, problems.txt in the bundle names the missing file and the error. If the settings are invalid, the bundle
// has only the version and the report of the doctor.
func (p *program) writeBundle(ctx context.Context, out io.Writer, file, token string) error {
	content := map[string][]byte{"version.txt": fmt.Appendf(nil, "fleet %s\n%s %s/%s\n", p.version, runtime.Version(), runtime.GOOS, runtime.GOARCH)}
	var problems bytes.Buffer
	report, err := json.MarshalIndent(examine(ctx, file, p.environ, nil), "", "  ")
	if err != nil {
		return err
	}
	content["doctor.json"] = report
	if cfg, err := Load(file, p.environ, nil); err == nil { // doctor.json has the error
		if content["configuration.yaml"], err = yaml.Marshal(cfg.redacted()); err != nil {
			return err
		}
		for name, path := range map[string]string{"health.json": "/readyz", "metrics.txt": metricsPath, "log.txt": supportLogPath, "goroutines.txt": supportGoroutinesPath} {
			if content[name], err = askServer(ctx, cfg.plainAddress(), path, token); err != nil {
				fmt.Fprintf(&problems, "%s: %v\n", name, err)
				delete(content, name)
			}
		}
	}
	if problems.Len() > 0 {
		content["problems.txt"] = problems.Bytes()
	}
	return pack(out, content)
}

// askServer sends a GET for the path to the server, with the token if there is one, and returns the body of the answer.
// A status other than 200 is an error, except for /readyz.
func askServer(ctx context.Context, addr, path, token string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err == nil && resp.StatusCode != http.StatusOK && path != "/readyz" {
		err = fmt.Errorf("the server answered %s: %.500s", resp.Status, bytes.TrimSpace(b))
	}
	return b, err
}

// pack writes the files into a compressed tar archive, in the directory fleet-support.
func pack(out io.Writer, content map[string][]byte) error {
	z := gzip.NewWriter(out)
	t := tar.NewWriter(z)
	now := time.Now().UTC().Truncate(time.Second)
	for name, b := range content {
		h := &tar.Header{Name: filepath.Join("fleet-support", name), Mode: 0o600, Size: int64(len(b)), ModTime: now}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(b); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}
