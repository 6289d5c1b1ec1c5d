//go:build cgo

package cagent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker/cagent/pkg/memory/database"
	"github.com/docker/cagent/pkg/tools/builtin"
)

// maxMemory bounds the memories of one agent, in bytes.
const maxMemory = 1 << 20

// memories are what an agent was told to remember. They are in a file that all sessions of one owner with the same
// definition share, and that outlives them.
type memories struct {
	b    *Place
	file home // its directory
	name string
}

var _ builtin.DB = (*memories)(nil)

// newMemories returns the memories of the run's owner with its definition. A definition can have several, which differ by
// their paths. An agent without a definition's name has its own.
func (r *run) newMemories(path string) (*memories, error) {
	rec := r.agent.rec
	if rec.Recipe.Name == "" {
		return &memories{r.b, r.agent.home, "memory-" + fileName(path) + ".json"}, nil
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{rec.Owner, rec.Recipe.Name, path}, "\x00")))
	dir := filepath.Join(r.b.config.Dir, "memory")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, errors.New("the directory of memories cannot be made")
	}
	return &memories{r.b, home(dir), hex.EncodeToString(sum[:]) + ".json"}, nil
}

// change reads the memories and has do change them. They are written when do says so.
func (m *memories) change(do func([]database.UserMemory) (_ []database.UserMemory, changed bool)) error {
	m.b.memories.Lock()
	defer m.b.memories.Unlock()
	var all []database.UserMemory
	if err := m.file.read(m.name, &all); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.New("the memories cannot be read")
	}
	all, changed := do(all)
	if !changed {
		return nil
	}
	size := 0
	for _, one := range all {
		size += len(one.Memory)
	}
	if size > maxMemory {
		return errors.New("the memory is full: delete what is not needed any more")
	}
	if err := m.file.write(m.name, all); err != nil {
		return errors.New("the memories cannot be written")
	}
	return nil
}

// AddMemory implements builtin.DB.
func (m *memories) AddMemory(_ context.Context, one database.UserMemory) error {
	return m.change(func(all []database.UserMemory) ([]database.UserMemory, bool) { return append(all, one), true })
}

// GetMemories implements builtin.DB.
func (m *memories) GetMemories(context.Context) (all []database.UserMemory, err error) {
	err = m.change(func(now []database.UserMemory) ([]database.UserMemory, bool) {
		all = now
		return now, false
	})
	return all, err
}

// DeleteMemory implements builtin.DB.
func (m *memories) DeleteMemory(_ context.Context, one database.UserMemory) error {
	return m.change(func(all []database.UserMemory) ([]database.UserMemory, bool) {
		return slices.DeleteFunc(all, func(x database.UserMemory) bool { return x.ID == one.ID }), true
	})
}
