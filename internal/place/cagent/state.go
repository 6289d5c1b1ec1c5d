//go:build cgo

package cagent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"fleet/internal/runner"
)

// touches reports whether the agent's runs touch this machine, and therefore have their own processes. The first call
// computes the answer and sets r.Machine.
func (r *record) touches() bool {
	if r.Machine == nil {
		d, err := parse([]byte(r.document()))
		machine := err == nil && touchesMachine(d, r.Config)
		r.Machine = &machine
	}
	return *r.Machine
}

// state returns the directory of the agent's conversation and todos. A run in its own process can write only this part
// of the home.
func (x *member) state() home {
	if x.own {
		return home(x.home.path("state"))
	}
	return x.home
}

// earlier is the directory for runs that an earlier version of Fleet executed in the server's process.
const earlier = "earlier"

// runDir returns the directory of a run in the server's process.
func (x *member) runDir(taskID string) home {
	if x.own {
		return home(x.home.path(earlier, runner.FileName(taskID)))
	}
	return home(x.home.path("runs", runner.FileName(taskID)))
}

// createDirs creates the directories of an agent whose runs have their own processes. It moves files that an earlier
// version of Fleet has written into them.
func (x *member) createDirs() error {
	if !x.own {
		return nil
	}
	for _, dir := range []string{"state", "home", "tmp"} {
		if err := os.MkdirAll(x.home.path(dir), 0o700); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(string(x.home))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if name == "conversation.jsonl" || strings.HasPrefix(name, "todos") || strings.HasPrefix(name, "memory-") {
			if err := os.Rename(x.home.path(name), x.state().path(name)); err != nil {
				return err
			}
		}
	}
	return x.moveEarlierRuns()
}

// moveEarlierRuns moves runs that an earlier version of Fleet executed in the server's process to the directory
// earlier.
func (x *member) moveEarlierRuns() error {
	runs, err := os.ReadDir(x.home.path("runs"))
	if err != nil {
		return err
	}
	for _, r := range runs {
		was := home(x.home.path("runs", r.Name()))
		if !was.exists("run.json") || was.exists("format.json") {
			continue
		}
		if err := os.MkdirAll(x.home.path(earlier), 0o700); err != nil {
			return err
		}
		if err := os.Rename(string(was), x.home.path(earlier, r.Name())); err != nil {
			return err
		}
	}
	return nil
}

// memory returns the directory of the agent's memories, and creates it. All agents of an owner with the same named
// definition share a directory. An agent whose definition has no name has its own directory.
func (b *Place) memory(x *member) (home, error) {
	if x.rec.Config.Name == "" {
		return x.state(), nil
	}
	hash := func(parts ...string) string {
		sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
		return hex.EncodeToString(sum[:])
	}
	all := filepath.Join(b.config.Dir, "memory")
	dir := home(filepath.Join(all, hash(x.rec.Owner, x.rec.Config.Name)))
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(all)
	if err != nil {
		return "", err
	}
	for _, e := range entries { // a file is from an earlier version of Fleet, which had one directory for all memories
		if !e.IsDir() {
			return dir, x.moveMemories(dir, func(path string) string {
				return filepath.Join(all, hash(x.rec.Owner, x.rec.Config.Name, path)+".json")
			})
		}
	}
	return dir, nil
}

// moveMemories moves the memories of the agent's definition into the directory. before returns the path at which an
// earlier version of Fleet stored the memories with the path in the definition.
func (x *member) moveMemories(dir home, before func(path string) string) error {
	d, err := parse([]byte(x.rec.document()))
	if err != nil {
		return nil // the run reports the error
	}
	for _, a := range d.config.Agents {
		for _, t := range a.Toolsets {
			if t.Type != "memory" {
				continue
			}
			if err := os.Rename(before(t.Path), dir.path(memoryFile(t.Path))); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
