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

// touches reports whether the agent's runs touch this machine and so have their own processes.
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

// earlier is the directory for runs that an earlier version of Fleet had in its own process.
const earlier = "earlier"

// runDir returns the directory of a run in the server's process.
func (x *member) runDir(taskID string) home {
	if x.own {
		return home(x.home.path(earlier, runner.FileName(taskID)))
	}
	return home(x.home.path("runs", runner.FileName(taskID)))
}

// createDirs creates the agent's directories, and moves the files of an earlier version of Fleet there.
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

// moveEarlierRuns moves runs that an earlier version of Fleet had in its own process.
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

// memory returns the directory of the memories that the agent's owner has with its definition. An agent of an unnamed
// definition has its own directory.
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
	for _, e := range entries { // earlier versions of Fleet had a file per definition, in a common directory
		if !e.IsDir() {
			return dir, x.moveMemories(dir, func(path string) string {
				return filepath.Join(all, hash(x.rec.Owner, x.rec.Config.Name, path)+".json")
			})
		}
	}
	return dir, nil
}

// moveMemories moves the memories of the agent's definition into the directory. before returns the path of an old file.
func (x *member) moveMemories(dir home, before func(path string) string) error {
	d, err := parse([]byte(x.rec.document()))
	if err != nil {
		return nil // the run reports this
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
