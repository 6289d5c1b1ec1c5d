package app

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"fleet/internal/face/inbound"
	"fleet/internal/face/wire"
)

// runnerDownloadsPath is the path prefix at which workspaces download fleet-runner.
const runnerDownloadsPath = "/runner/"

// runnerDownloads serves the program fleet-runner, which is not secret, to workspaces that can reach this server. GET
// /runner/linux-amd64 returns the program, and GET /runner/linux-amd64.sha256 its checksum in the format of sha256sum.
type runnerDownloads struct {
	dir string // has files such as fleet-runner-linux-amd64

	mu   sync.Mutex // held while a file is read, so that many requests cause one read
	sums map[string]checksum
}

// checksum is the SHA-256 of a file that had this size and modification time.
type checksum struct {
	size int64
	time time.Time
	sum  []byte
}

// newRunnerDownloads returns a handler that serves the programs in the directory.
func newRunnerDownloads(dir string) *runnerDownloads {
	return &runnerDownloads{dir: dir, sums: map[string]checksum{}}
}

// runnerDir returns the directory with the programs fleet-runner: by default the directory of this program.
func (c Config) runnerDir() string {
	if c.RunnerDir != "" {
		return c.RunnerDir
	}
	self, err := os.Executable()
	if err != nil {
		return os.DevNull // a path below it does not exist
	}
	return filepath.Dir(self)
}

// runnerName returns the name of the file with fleet-runner for the platform. A platform is, for example, linux-amd64.
func runnerName(platform string) string { return "fleet-runner-" + platform }

// downloadTimeout is how long a download may take. Downloads need no token, and other connections of unknown callers are
// closed much earlier.
const downloadTimeout = 10 * time.Minute

// platforms are the platforms that fleet-runner is built for.
var platforms = map[string]bool{"linux-amd64": true, "linux-arm64": true}

// ServeHTTP implements http.Handler.
func (p *runnerDownloads) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	platform, sumOnly := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, runnerDownloadsPath), ".sha256")
	name := runnerName(platform)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refuseDownload(w, http.StatusMethodNotAllowed, "fleet-runner can only be read: use GET")
		return
	}
	if !platforms[platform] {
		refuseDownload(w, http.StatusNotFound, "there is no such fleet-runner: ask for linux-amd64 or linux-arm64")
		return
	}
	f, err := os.Open(filepath.Join(p.dir, name))
	if err != nil {
		refuseDownload(w, http.StatusNotFound, fmt.Sprintf("this server does not have %s: put it beside the server's program, or set runner_dir", name))
		return
	}
	defer func() { _ = f.Close() }()
	info, sum, err := p.sum(name, f)
	if err != nil {
		refuseDownload(w, http.StatusInternalServerError, fmt.Sprintf("%s cannot be read: install it again", name))
		return
	}
	if sumOnly {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprintf(w, "%s  %s\n", hex.EncodeToString(sum), name)
		return
	}
	if c := inbound.ConnFrom(r.Context()); c != nil {
		c.Extend(downloadTimeout)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum)+`"`)
	w.Header().Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":")
	http.ServeContent(w, r, name, info.ModTime(), f)
}

// sum returns the SHA-256 of the file with the name, and the result of its Stat. It reads the file only if its size or its
// modification time has changed, because anybody may ask for the checksum.
func (p *runnerDownloads) sum(name string, f *os.File) (info fs.FileInfo, sum []byte, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fs.ErrInvalid
	}
	if cached, ok := p.sums[name]; ok && cached.size == info.Size() && cached.time.Equal(info.ModTime()) {
		return info, cached.sum, nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return nil, nil, err
	}
	p.sums[name] = checksum{info.Size(), info.ModTime(), hash.Sum(nil)}
	return info, p.sums[name].sum, nil
}

func refuseDownload(w http.ResponseWriter, status int, message string) {
	reason := "UNIMPLEMENTED"
	if status == http.StatusInternalServerError {
		reason = "INTERNAL"
	}
	wire.WriteErrorObject(w, status, wire.Error{Reason: reason, Message: message})
}
