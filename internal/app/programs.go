package app

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"fleet/internal/face/wire"
)

// programsPath is the path prefix at which workspaces download fleet-runner.
const programsPath = "/runner/"

// programs serves the program fleet-runner, which is not secret, to workspaces that can reach this server. GET
// /runner/linux-amd64 returns the program, and GET /runner/linux-amd64.sha256 its checksum in the format of sha256sum.
// Nothing else depends on programs.
type programs struct {
	dir string // has files such as fleet-runner-linux-amd64
}

// newPrograms returns a handler that serves the programs in the directory. If dir is empty, it is the directory of this
// program. If that is not known, there are no programs.
func newPrograms(dir string) programs {
	if dir == "" {
		if self, err := os.Executable(); err == nil {
			dir = filepath.Dir(self)
		}
	}
	if dir == "" {
		dir = os.DevNull // a path below it does not exist
	}
	return programs{dir}
}

// platforms are the platforms that fleet-runner is built for.
var platforms = map[string]bool{"linux-amd64": true, "linux-arm64": true}

// ServeHTTP implements http.Handler.
func (p programs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	platform, sumOnly := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, programsPath), ".sha256")
	name := "fleet-runner-" + platform
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refuseProgram(w, http.StatusMethodNotAllowed, "fleet-runner can only be read: use GET")
		return
	}
	if !platforms[platform] {
		refuseProgram(w, http.StatusNotFound, "there is no such fleet-runner: ask for linux-amd64 or linux-arm64")
		return
	}
	f, err := os.Open(filepath.Join(p.dir, name))
	if err != nil {
		refuseProgram(w, http.StatusNotFound, fmt.Sprintf("this server does not have %s: put it beside the server's program, or set runner_dir", name))
		return
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	hash := sha256.New()
	if err == nil {
		_, err = io.Copy(hash, f)
	}
	if err != nil || !info.Mode().IsRegular() {
		refuseProgram(w, http.StatusInternalServerError, fmt.Sprintf("%s cannot be read: install it again", name))
		return
	}
	sum := hash.Sum(nil)
	if sumOnly {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprintf(w, "%s  %s\n", hex.EncodeToString(sum), name)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum)+`"`)
	w.Header().Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":")
	http.ServeContent(w, r, name, info.ModTime(), f)
}

func refuseProgram(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	reason := "UNIMPLEMENTED"
	if status == http.StatusInternalServerError {
		reason = "INTERNAL"
	}
	_, _ = w.Write(append(wire.Error{Reason: reason, Message: message}.JSON(), '\n'))
}
