package worktree

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"

	"fleet/internal/fleet"
)

// addDifferences adds the files that differ between the commits to c.
func (v *view) addDifferences(ctx context.Context, c *fleet.Changes) error {
	var out bytes.Buffer
	if err := v.pipe(ctx, nil, &out, append(slices.Clone(diffArguments), "-z", "--raw", "--numstat", "--end-of-options", c.Base, c.Commit)...); err != nil {
		return err
	}
	addFiles(c, out.String())
	return nil
}

// addFiles adds the files in the output of diff-tree with -z, --raw and --numstat.
func addFiles(c *fleet.Changes, out string) {
	kinds := map[string]fleet.FileChangeKind{}
	fields := strings.Split(out, "\x00")
	next := func() (f string) {
		if len(fields) > 0 {
			f, fields = fields[0], fields[1:]
		}
		return f
	}
	for len(fields) > 0 {
		f := next()
		if strings.HasPrefix(f, ":") { // :100644 100644 sha1 sha2 M
			status := f[strings.LastIndexByte(f, ' ')+1:]
			path, kind := next(), fleet.FileModified
			switch {
			case strings.HasPrefix(status, "A"):
				kind = fleet.FileAdded
			case strings.HasPrefix(status, "D"):
				kind = fleet.FileDeleted
			case strings.HasPrefix(status, "R"):
				path, kind = next(), fleet.FileRenamed
			}
			kinds[path] = kind
			continue
		}
		counts := strings.SplitN(f, "\t", 3)
		if len(counts) < 3 {
			continue
		}
		file := fleet.FileChange{Path: counts[2], Binary: counts[0] == "-"}
		if file.Path == "" {
			file.From, file.Path = next(), next()
		}
		file.Kind = kinds[file.Path]
		file.Insertions, _ = strconv.Atoi(counts[0])
		file.Deletions, _ = strconv.Atoi(counts[1])
		c.FileCount++
		c.Insertions += file.Insertions
		c.Deletions += file.Deletions
		if len(c.FileChanges) < fleet.MaxChangedFiles {
			c.FileChanges = append(c.FileChanges, file)
		}
	}
}
