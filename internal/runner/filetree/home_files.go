//go:build unix

package filetree

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// HomeFiles are the files that Fleet puts into the home directory of an agent. The agent can write there, and may have
// replaced any of them.
type HomeFiles struct {
	Dir     string            `json:"dir"`
	Dirs    []string          `json:"dirs,omitempty"`
	Initial map[string][]byte `json:"new,omitempty"`     // contents of files that are created if they do not exist
	Managed map[string][]byte `json:"current,omitempty"` // contents of files that are replaced
	Links   map[string]string `json:"links,omitempty"`   // targets of symbolic links that are created if they do not exist
	Caches  Caches            `json:"caches,omitzero"`
}

// Caches are symbolic links to directories below Dir, which several agents share.
type Caches struct {
	Dir   string            `json:"dir"`
	Links map[string]string `json:"links"` // targets, relative to Dir; "" removes the link
}

// updateLinks creates, changes and removes the links. If the agent has put anything else at the path of a link, it stays there
// and is not shared.
func (c Caches) updateLinks(root *os.Root) {
	for name, target := range c.Links {
		now, err := root.Readlink(name)
		if target != "" {
			target = filepath.Join(c.Dir, target)
		}
		if err == nil {
			ours := strings.Contains(now, "/"+filepath.Base(c.Dir)+"/") // true even if Dir was elsewhere when the link was created
			if !ours || now == target || root.Remove(name) != nil {
				continue
			}
		}
		if target != "" && root.MkdirAll(filepath.Dir(name), 0o700) == nil {
			_ = root.Symlink(target, name)
		}
	}
}

// WriteHomeFiles creates and replaces the files. It follows no link out of the directory. If something of the agent is in the
// way of a file, a directory or a link, WriteHomeFiles returns its path in replaced.
func WriteHomeFiles(e HomeFiles) (replaced string, err error) {
	root, err := os.OpenRoot(e.Dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	for _, dir := range slices.Sorted(slices.Values(e.neededDirs())) {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return dir, nil
		}
		if info, err := root.Stat(dir); err != nil || !info.IsDir() {
			return dir, nil //nolint:nilerr // for example, a link out of the directory
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Initial)) {
		if err := createFile(root, name, e.Initial[name]); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Managed)) {
		temp := name + ".new"
		if hasContent(root, name, e.Managed[name]) {
			continue // so that an agent can also start on a full disk
		}
		if err := root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return temp, nil
		}
		err := createFile(root, temp, e.Managed[name])
		if err == nil {
			err = root.Rename(temp, name)
		}
		if err != nil {
			return "", err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Links)) {
		if err := root.Symlink(e.Links[name], name); err != nil && !errors.Is(err, fs.ErrExist) {
			return name, nil
		}
	}
	e.Caches.updateLinks(root)
	return "", nil
}

// neededDirs returns the directories that the files need.
func (h HomeFiles) neededDirs() []string {
	all := slices.Clone(h.Dirs)
	for _, names := range []iter.Seq[string]{maps.Keys(h.Initial), maps.Keys(h.Managed), maps.Keys(h.Links)} {
		for name := range names {
			if dir := filepath.Dir(name); dir != "." {
				all = append(all, dir)
			}
		}
	}
	return all
}

// createFile creates a file. It returns fs.ErrExist if the name exists.
func createFile(root *os.Root, name string, text []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// hasContent reports whether the file has the content.
func hasContent(root *os.Root, name string, text []byte) bool {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(text)) {
		return false
	}
	b, err := io.ReadAll(io.LimitReader(f, info.Size()))
	return err == nil && bytes.Equal(b, text)
}
