//go:build cgo

package cagent

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
)

// state returns the directory of the agent's conversation and todos. A run can write only this part of the home.
func (x *member) state() home { return home(x.home.path("state")) }

// createDirs creates the directories that a run can write.
func (x *member) createDirs() error {
	for _, dir := range []string{"state", "home", "tmp"} {
		if err := os.MkdirAll(x.home.path(dir), 0o700); err != nil {
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
	sum := sha256.Sum256([]byte(x.rec.Owner + "\x00" + x.rec.Config.Name))
	dir := filepath.Join(b.config.Dir, "memory", hex.EncodeToString(sum[:]))
	return home(dir), os.MkdirAll(dir, 0o700)
}
