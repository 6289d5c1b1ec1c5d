//go:build unix

// Package gitfiles reads and repairs the files of git directories and working trees that agents wrote, without running git. An
// agent decides what the files say, and may have replaced any of them by a link, a pipe or a huge file.
//
// Package sandbox calls it in a confined process, and gives its results to package worktree, which checks them again.
package gitfiles

import (
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"syscall"
)

// Info describes a git directory.
type Info struct {
	Head          string            `json:"head"`     // content of HEAD, trimmed
	Commit        string            `json:"commit"`   // the object that HEAD names; empty if HEAD names a branch that has no file
	Settings      []Setting         `json:"settings"` // the plain settings, see Setting.IsPlain
	ConfigBroken  bool              `json:"broken"`   // the configuration cannot be read
	SharedIndexes []string          `json:"shared"`   // names of the parts of a split index
	DetachedHeads map[string]string `json:"detached"` // the objects that the agent's worktrees have checked out without a branch, by the names of the worktrees
	// Worktrees are the worktrees that the agent added to the git directory, at most maxListedWorktrees.
	Worktrees  []Worktree `json:"worktrees"`
	ObjectDirs []string   `json:"objects"` // names of the directories with objects
	HasLFS     bool       `json:"large"`   // there may be files of Git LFS
}

// Worktree is a worktree of a git directory.
type Worktree struct {
	Dir  string `json:"dir"`
	Head string `json:"head"` // content of its HEAD, trimmed
}

// Setting is a setting in the configuration of a repository.
type Setting struct {
	Section string `json:"section"`
	Name    string `json:"name"`
	Value   string `json:"value"`
}

const (
	maxSmallFile       = 64 << 10 // size of HEAD and similar files, in bytes
	maxConfig          = 16 << 20 // size of a configuration, in bytes
	maxNames           = 100_000  // number of entries of a directory that are read
	maxSettings        = 1000
	maxValue           = 100     // length of the value of a plain setting
	maxWorktrees       = 1000    // number of worktrees whose HEADs are read
	maxShared          = 100     // number of Info.SharedIndexes
	maxListedWorktrees = 100     // number of Info.Worktrees
	maxWorktreeBytes   = 4 << 10 // total length of the path and the HEAD of one of them
)

// Read reads the git directory. It leaves out files that it cannot read, and fails only if it cannot open the directory.
func Read(dir string) (Info, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Info{}, err
	}
	defer func() { _ = root.Close() }()
	i := Info{Head: readSmall(root, "HEAD")}
	i.Commit = i.Head
	if name, ok := strings.CutPrefix(i.Head, "ref: "); ok {
		i.Commit = ""
		if fs.ValidPath(name) && strings.HasPrefix(name, "refs/heads/") {
			i.Commit = readSmall(root, name)
		}
	}
	if !IsOID(i.Commit) {
		i.Commit = ""
	}
	config, err := readRegular(root, "config", maxConfig)
	i.ConfigBroken = err != nil
	i.Settings = ParseSettings(config)
	for _, name := range entryNames(root, ".", maxNames) {
		if oid, ok := strings.CutPrefix(name, "sharedindex."); ok && IsOID(oid) && len(i.SharedIndexes) < maxShared {
			i.SharedIndexes = append(i.SharedIndexes, name)
		}
	}
	for _, name := range entryNames(root, "worktrees", maxWorktrees) {
		oid := readSmall(root, path.Join("worktrees", name, "HEAD"))
		if dir, ok := strings.CutSuffix(readSmall(root, path.Join("worktrees", name, "gitdir")), "/.git"); ok && len(dir)+len(oid) < maxWorktreeBytes && len(i.Worktrees) < maxListedWorktrees {
			i.Worktrees = append(i.Worktrees, Worktree{dir, oid})
		}
		if IsOID(oid) {
			if i.DetachedHeads == nil {
				i.DetachedHeads = map[string]string{}
			}
			i.DetachedHeads[name] = oid
		}
	}
	for _, name := range entryNames(root, "objects", maxNames) {
		info, err := root.Lstat(path.Join("objects", name))
		if (name == "pack" || len(name) == 2 && isHex(name)) && err == nil && info.IsDir() {
			i.ObjectDirs = append(i.ObjectDirs, name)
		}
	}
	info, err := root.Lstat("lfs/objects")
	i.HasLFS = err == nil && info.IsDir()
	return i, nil
}

// IsOID reports whether the text is the full id of an object of git, with SHA-1 or SHA-256.
func IsOID(s string) bool { return (len(s) == 40 || len(s) == 64) && isHex(s) }

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// entryNames returns the names of at most n entries of the directory, and none if the directory cannot be read.
func entryNames(root *os.Root, dir string, n int) []string {
	f, err := root.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	all, _ := f.Readdirnames(n)
	return all
}

// readSmall returns the trimmed content of a small file. It is empty if the file cannot be read.
func readSmall(root *os.Root, name string) string {
	b, err := readRegular(root, name, maxSmallFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// readRegular returns the content of a regular file. It fails if the file is larger than limit, or is a symbolic link.
func readRegular(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EINVAL}
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// plainSettings has the settings of a repository that affect comparisons and name no programs.
var plainSettings = map[string]bool{
	"core.repositoryformatversion": true, "core.sharedrepository": true, "core.filemode": true, "core.ignorecase": true, "core.precomposeunicode": true,
	"core.symlinks": true, "core.autocrlf": true, "core.eol": true, "extensions.objectformat": true,
}

var plainValuePattern = regexp.MustCompile(`^[A-Za-z0-9]+$`)

// IsPlain reports whether Fleet may use the setting for its own git commands in the repository: the setting names no program, and
// its value is short and consists of letters and digits.
func (s Setting) IsPlain() bool {
	return plainSettings[s.Section+"."+s.Name] && plainValuePattern.MatchString(s.Value) && len(s.Value) <= maxValue
}

// ParseSettings returns the plain settings in the text of a configuration, at most maxSettings.
func ParseSettings(text []byte) (settings []Setting) {
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			name, rest, _ := strings.Cut(line[1:], "]")
			section, line = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(rest)
		}
		name, value, _ := strings.Cut(line, "=")
		s := Setting{section, strings.ToLower(strings.TrimSpace(name)), strings.Trim(strings.TrimSpace(value), `"`)}
		if s.IsPlain() && len(settings) < maxSettings {
			settings = append(settings, s)
		}
	}
	return settings
}
