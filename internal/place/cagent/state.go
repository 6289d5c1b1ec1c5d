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
)

// touches reports whether the agent's runs touch this machine, and so have processes of their own.
func (r *record) touches() bool {
	if r.Machine == nil {
		d, err := parse([]byte(r.document()))
		machine := err == nil && ofMachine(d, r.Recipe)
		r.Machine = &machine
	}
	return *r.Machine
}

// state is where the agent's conversation and its todos are. A run in a process of its own can write them and nothing else of
// the home.
func (x *member) state() home {
	if x.own {
		return home(x.home.path("state"))
	}
	return x.home
}

// earlier is the directory of the runs that an earlier version of Fleet had in its own process.
const earlier = "earlier"

// runDir is the directory of a run of the server's process.
func (x *member) runDir(taskID string) home {
	if x.own {
		return home(x.home.path(earlier, fileName(taskID)))
	}
	return home(x.home.path("runs", fileName(taskID)))
}

// settle makes the agent's directories. What an earlier version of Fleet kept in the home is moved.
func (x *member) settle() error {
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
	return x.putEarlier()
}

// putEarlier moves the runs that an earlier version of Fleet had in its own process.
func (x *member) putEarlier() error {
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

// memory is where the memories are of the agent's owner with its definition. An agent without a definition's name has its
// own.
func (b *Place) memory(x *member) (home, error) {
	if x.rec.Recipe.Name == "" {
		return x.state(), nil
	}
	hash := func(parts ...string) string {
		sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
		return hex.EncodeToString(sum[:])
	}
	all := filepath.Join(b.config.Dir, "memory")
	dir := home(filepath.Join(all, hash(x.rec.Owner, x.rec.Recipe.Name)))
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(all)
	if err != nil {
		return "", err
	}
	for _, e := range entries { // earlier versions of Fleet had a file for each, beside those of others
		if !e.IsDir() {
			return dir, x.moveMemories(dir, func(path string) string {
				return filepath.Join(all, hash(x.rec.Owner, x.rec.Recipe.Name, path)+".json")
			})
		}
	}
	return dir, nil
}

// moveMemories moves the memories of the agent's definition into the directory. before names the file that they were in.
func (x *member) moveMemories(dir home, before func(path string) string) error {
	d, err := parse([]byte(x.rec.document()))
	if err != nil {
		return nil // the run says so
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
