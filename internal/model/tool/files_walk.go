//go:build cgo

package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/docker/cagent/pkg/fsx"
	"github.com/docker/cagent/pkg/tools/builtin"
)

// maxMatches limits the matching lines that a search returns.
const maxMatches = 1000

// walk calls visit for p, and for the files and directories below p that the ignore rules leave. It does not follow symbolic
// links.
func (f *files) walk(ctx context.Context, dir *os.Root, p string, visit func(name string, e fs.DirEntry) error) error {
	name, err := f.relativePath(p)
	if err != nil {
		return err
	}
	name = filepath.ToSlash(name)
	ignore := newIgnoreRules(dir, f.includeIgnored)
	return fs.WalkDir(dir.FS(), name, func(at string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && at == name:
			return err
		case err != nil:
			return nil //nolint:nilerr // skip what cannot be read
		case at != name && ignore.ignores(at, e.IsDir()):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		return visit(at, e)
	})
}

func (f *files) directoryTree(ctx context.Context, dir *os.Root, args builtin.DirectoryTreeArgs) (string, error) {
	nodes := map[string]*fsx.TreeNode{}
	var top *fsx.TreeNode
	err := f.walk(ctx, dir, args.Path, func(name string, e fs.DirEntry) error {
		if len(nodes) == maxEntries {
			return fs.SkipAll
		}
		n := &fsx.TreeNode{Name: path.Base(name), Type: "file"}
		if e.IsDir() {
			n.Type = "directory"
		}
		nodes[name] = n
		switch parent := nodes[path.Dir(name)]; {
		case top == nil:
			top = n
			if name == "." {
				n.Name = filepath.Base(f.dir)
			}
		case parent != nil:
			parent.Children = append(parent.Children, n)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	b, err := json.MarshalIndent(top, "", "  ")
	return string(b), err
}

func (f *files) searchContent(ctx context.Context, dir *os.Root, args builtin.SearchFilesContentArgs) (string, error) {
	query := args.Query
	if !args.IsRegex {
		query = regexp.QuoteMeta(query)
	}
	pattern, err := regexp.Compile(query)
	if err != nil {
		return "", fmt.Errorf("query is not a regular expression: %w", err)
	}
	var found []string
	start := ""
	err = f.walk(ctx, dir, args.Path, func(name string, e fs.DirEntry) error {
		if start == "" {
			start = name
		}
		switch {
		case name != start && isExcluded(args.ExcludePatterns, strings.TrimPrefix(name, start+"/")):
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !e.Type().IsRegular():
			return nil
		}
		text, err := contents(dir, name, maxFileSize)
		if err != nil || bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
			return nil //nolint:nilerr // skip what cannot be read or is not text
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			line = strings.TrimSuffix(line, "\n")
			match := pattern.FindStringIndex(line)
			if match == nil {
				continue
			}
			if len(found) == maxMatches {
				found = append(found, fmt.Sprintf("...more than %d matches: make the query more specific...", maxMatches))
				return fs.SkipAll
			}
			shown := line
			if len(line) > 100 {
				shown = line[max(match[0]-20, 0):min(match[1]+20, len(line), match[0]+200)]
			}
			found = append(found, fmt.Sprintf("%s:%d:%d: %s", name, n, match[0]+1, shown))
		}
		return nil
	})
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "No results found", nil
	}
	return strings.Join(found, "\n"), nil
}

// isExcluded reports whether the path, one of its directories or its base name matches a pattern.
func isExcluded(patterns []string, name string) bool {
	for _, p := range patterns {
		p = strings.TrimSuffix(filepath.ToSlash(p), "/*")
		for at := name; at != "."; at = path.Dir(at) {
			if ok, _ := path.Match(p, at); ok {
				return true
			}
		}
		if ok, _ := path.Match(p, path.Base(name)); ok {
			return true
		}
	}
	return false
}
