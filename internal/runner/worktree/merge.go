package worktree

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner/gitfiles"
)

// The names of the two sides of a merge in conflict markers.
const (
	oursLabel   = "branch"
	theirsLabel = "work"
)

// mergeResult is the result of a merge of two commits.
type mergeResult struct {
	tree      string // with conflict markers if there are conflicts
	conflicts []fleet.Conflict
}

// merge merges two commits, which have a common commit in their histories.
func (d *draft) merge(ctx context.Context, ours, theirs string) (m mergeResult, err error) {
	for label, oid := range map[string]string{oursLabel: ours, theirsLabel: theirs} {
		if err := os.WriteFile(filepath.Join(d.gitDir, "refs", "heads", label), []byte(oid+"\n"), 0o600); err != nil {
			return m, err
		}
	}
	var out bytes.Buffer
	err = d.pipe(ctx, nil, &out, "merge-tree", "--write-tree", "-z", "--messages", oursLabel, theirsLabel)
	tree, rest, _ := strings.Cut(out.String(), "\x00")
	if code := exitCode(err); err != nil && code != 1 || !gitfiles.IsOID(tree) {
		return m, mergeError(err)
	}
	m.tree = tree
	if err != nil {
		m.conflicts, err = d.conflicts(ctx, tree, rest)
	}
	return m, err
}

// mergeError returns the error for a merge that has no result.
func mergeError(err error) error {
	const usage = 129
	switch {
	case err == nil:
		return &Error{Message: "git merge-tree printed no tree"}
	case exitCode(err) == usage:
		return &Error{Message: "git on this machine cannot combine work without a checkout: install git 2.38 or newer"}
	}
	return err
}

// conflictKindPattern matches the beginning of a message of merge-tree.
var conflictKindPattern = regexp.MustCompile(`^CONFLICT \(([^)]+)\)`)

// conflicts returns the conflicts that merge-tree lists after the tree.
func (d *draft) conflicts(ctx context.Context, tree, list string) ([]fleet.Conflict, error) {
	kinds := map[string]string{}
	fields := strings.Split(list, "\x00")
	for len(fields) > 0 && fields[0] != "" { // MODE OID STAGE<tab>PATH
		if _, path, ok := strings.Cut(fields[0], "\t"); ok {
			kinds[path] = ""
		}
		fields = fields[1:]
	}
	if len(fields) > 0 {
		fields = fields[1:]
	}
	for len(fields) > 3 { // the number of paths, the paths, the kind, the message
		count, err := strconv.Atoi(fields[0])
		if err != nil || count < 0 || count > len(fields)-3 {
			break
		}
		paths, kind, message := fields[1:1+count], fields[1+count], fields[2+count]
		fields = fields[3+count:]
		match := conflictKindPattern.FindStringSubmatch(message)
		if match == nil {
			match = conflictKindPattern.FindStringSubmatch(kind)
		}
		if match == nil {
			continue
		}
		known := false
		for _, path := range paths {
			if before, ok := kinds[path]; ok {
				known = true
				if before == "" || kind == "CONFLICT (binary)" {
					kinds[path] = match[1]
				}
			}
		}
		if !known {
			kinds[realPath(paths)] = match[1]
		}
	}
	var all []fleet.Conflict
	for _, path := range slices.Sorted(maps.Keys(kinds)) {
		if len(all) == fleet.MaxConflicts {
			break
		}
		all = append(all, fleet.Conflict{Path: path, Kind: cmp.Or(kinds[path], "content")})
	}
	return all, d.addHunks(ctx, tree, all)
}

// realPath returns the first path that exists in one of the merged commits. For a file that has the name of a directory of the other
// side, git invents a path that ends with ~ and the label of a side.
func realPath(paths []string) string {
	for _, path := range paths {
		if !strings.Contains(path, "~"+oursLabel) && !strings.Contains(path, "~"+theirsLabel) {
			return path
		}
	}
	return strings.Join(paths[:min(1, len(paths))], "")
}

// addHunks sets the lines in conflict of each of the conflicts. The tree has the files with conflict markers.
func (d *draft) addHunks(ctx context.Context, tree string, all []fleet.Conflict) error {
	args := []string{"ls-tree", "-z", "--full-tree", tree, "--"}
	for _, c := range all {
		args = append(args, c.Path)
	}
	oids := map[string]string{}                                                        // object ids by path
	err := d.pipe(ctx, nil, &lineWriter{nulTerminated: true, each: func(line string) { // MODE TYPE OID<tab>PATH
		entry, path, _ := strings.Cut(line, "\t")
		if f := strings.Fields(entry); len(f) == 3 && f[1] == "blob" && f[0] != "120000" {
			oids[path] = f[2]
		}
	}}, args...)
	if err != nil {
		return err
	}
	var names []string
	var indexes []int
	for i, c := range all {
		if oid := oids[c.Path]; oid != "" {
			names, indexes = append(names, oid), append(indexes, i)
		}
	}
	return d.eachBlob(ctx, names, func(text io.Reader) error {
		i := indexes[0]
		indexes = indexes[1:]
		if text == nil {
			return nil
		}
		var h hunks
		_, err := io.Copy(&lineWriter{truncate: true, each: h.add}, text)
		all[i].Hunks = h.text.String()
		return err
	})
}
