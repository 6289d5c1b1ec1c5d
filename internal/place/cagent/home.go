package cagent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/place/agentfile"
	"fleet/internal/runner/sandbox"
	"fleet/internal/scratch"
)

// home is an agent's directory, or the directory of one of its runs. An agent's directory contains agent.json,
// conversation.jsonl, log, work/, runs/ and active.json, and the file stopped if the agent is stopped. If the agent's runs have their
// own processes, it also contains home/, tmp/ and state/, and the conversation is in state/.
type home string

// maxFile is the maximum size, in bytes, of a file in an agent's home that is read as a whole.
const maxFile = 64 << 20

// record is the content of agent.json.
type record struct {
	UID       string             `json:"uid"`
	Name      string             `json:"name"`
	Owner     string             `json:"owner"`
	Project   string             `json:"project,omitempty"`
	Role      string             `json:"role,omitempty"`
	Spec      string             `json:"spec,omitempty"`
	Config    *fleet.AgentConfig `json:"recipe"`
	CreatedAt time.Time          `json:"created_at"`
}

// document returns the agent's definition. If the configuration has none, it returns a minimal one.
func (r *record) document() string {
	if r.Config.Document != "" {
		return r.Config.Document
	}
	return "agents:\n  root:\n    model: auto\n"
}

// work returns the agent's working directory.
func (r *record) work(h home) string {
	if r.Config.Dir != "" {
		return r.Config.Dir
	}
	return h.path("work")
}

// hasWorkingCopy reports whether the agent works in a working copy of a project.
func hasWorkingCopy(r *fleet.AgentConfig) bool { return r != nil && r.Place != "" }

// named reports whether a caller has named the agent's working directory. Programs of other agents may be able to change
// its path.
func (r *record) named() bool { return r.Config.Dir != "" && !hasWorkingCopy(r.Config) }

// makeWork creates the agent's working directory. It does not create a directory that a caller has named, because that
// one existed when the caller was allowed to use it, and refuses it if its path contains symbolic links.
func (r *record) makeWork(dir string) error {
	if r.named() {
		return sandbox.CheckPlain(dir)
	}
	return os.MkdirAll(dir, 0o700)
}

// openWork opens an agent's working directory. If plain is set, its path may not contain symbolic links.
func openWork(dir string, plain bool) (*os.Root, error) {
	if plain {
		return sandbox.OpenRoot(dir)
	}
	return os.OpenRoot(dir)
}

func (h home) path(parts ...string) string {
	return filepath.Join(append([]string{string(h)}, parts...)...)
}

// exists reports whether the file exists.
func (h home) exists(name string) bool {
	_, err := os.Lstat(h.path(name))
	return err == nil
}

// read reads a JSON file into v. It returns fs.ErrNotExist if the file does not exist.
func (h home) read(name string, v any) error {
	b, err := agentfile.Read(h.path(name), maxFile)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", h.path(name), err)
	}
	return nil
}

// write writes v to a JSON file. It replaces the file as writeFile does.
func (h home) write(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeFile(h.path(name), append(b, '\n'))
}

// writeFile replaces a file atomically: a crash leaves the old or the new content. It does not sync the directory, so
// after a crash of the machine the file may still have the old content.
func writeFile(path string, data []byte) error {
	f, err := scratch.File(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// log appends a line to the agent's log. Errors are ignored.
func (h home) log(now time.Time, format string, args ...any) {
	f, err := agentfile.Create(h.path("log"))
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	_, _ = fmt.Fprintf(f, "%s %s\n", now.UTC().Format(time.RFC3339), oneLine(fmt.Sprintf(format, args...), 1000))
}

// lines returns the last n lines of the log, and whether the log has more lines.
func (h home) lines(n int) ([]string, bool, error) {
	b, err := agentfile.Read(h.path("log"), maxFile)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(b) == 0 {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	all := strings.Split(strings.TrimSuffix(clean(string(b)), "\n"), "\n")
	from := max(0, len(all)-max(n, 0))
	return all[from:], from > 0, nil
}
