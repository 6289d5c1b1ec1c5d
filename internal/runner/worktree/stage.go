package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner/gitfiles"
	"fleet/internal/runner/sandbox"
)

// usePrivateIndex gives the view a copy of the agent's index. If the agent has no index, or git cannot read it within its
// limits, the view gets a new index with the files of the commit head. usePrivateIndex also makes Fleet the author of commits
// in the view.
func (v *view) usePrivateIndex(ctx context.Context, head string) error {
	from := ""
	for _, e := range v.env {
		if path, ok := strings.CutPrefix(e, "GIT_INDEX_FILE="); ok {
			from = path
		}
	}
	to := filepath.Join(v.gitDir, "index")
	v.env = append(v.env, "GIT_INDEX_FILE="+to, // the last value counts
		"GIT_AUTHOR_NAME=Fleet", "GIT_AUTHOR_EMAIL="+placeholderEmail, "GIT_COMMITTER_NAME=Fleet", "GIT_COMMITTER_EMAIL="+placeholderEmail)
	if sandbox.CopyIndex(ctx, gitfiles.IndexCopy{From: from, To: to}) == nil {
		_, err := v.run(ctx, "ls-files", "--stage", "--error-unmatch", "--", ":(top,literal)\x01") // reads the index, and lists nothing
		if err == nil || strings.Contains(err.Error(), "did not match") || ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return v.resetIndex(ctx, head)
}

// resetIndex replaces the index of the view by one with the files of the commit head, or an empty one if head is empty.
func (v *view) resetIndex(ctx context.Context, head string) error {
	if err := os.Remove(filepath.Join(v.gitDir, "index")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if head == "" {
		return nil
	}
	_, err := v.run(ctx, "read-tree", head)
	return err
}

// stageFiles adds the files of the working tree to the index, and returns descriptions of the files that it left out. head is the
// commit of HEAD, or empty.
func (v *view) stageFiles(ctx context.Context, head string) (leftOut []string, err error) {
	var changed listing
	_, err = v.listFiles(ctx, &changed, "--modified", "--deleted")
	if err == nil && changed.countedDirs != nil { // the agent's index can name any number of files that do not exist
		if err := v.resetIndex(ctx, head); err != nil {
			return nil, err
		}
		changed = listing{}
		_, err = v.listFiles(ctx, &changed, "--modified", "--deleted")
	}
	if err != nil {
		return nil, err
	}
	var untracked listing
	warnings, err := v.listFiles(ctx, &untracked, "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	var s staging
	if s.sizes, err = v.sizes(ctx, append(slices.Clone(changed.paths), untracked.paths...)); err != nil {
		return nil, err
	}
	for _, path := range changed.paths {
		s.take(path)
	}
	s.leaveOutCounted(&changed)
	s.addNew(v.leaveOutLinked(ctx, &s, untracked.paths))
	s.leaveOutCounted(&untracked)
	if err := v.leaveOutUnread(ctx, &s, warnings); err != nil {
		return nil, err
	}
	err = v.addPaths(ctx, &s, s.paths)
	return s.result(), err
}

// listFiles passes the paths of the working tree that ls-files lists with the options to l. It returns git's warnings.
func (v *view) listFiles(ctx context.Context, l *listing, options ...string) (warnings string, err error) {
	var errs tailBuffer
	args := append([]string{"ls-files", "-z", "--deduplicate"}, options...)
	err = v.git.pipeWithStderr(ctx, v.policy, v.env, v.dir, nil, &lineWriter{nulTerminated: true, each: l.add}, &errs, args...)
	return errs.String(), err
}

// unreadDirPattern matches git's warning about a directory that it cannot read. git cuts off the warning about a long path.
var unreadDirPattern = regexp.MustCompile(`could not open directory '(.*?)(?:': (.*))?$`)

// leaveOutUnread leaves out the files in directories that git could not read, according to its warnings.
func (v *view) leaveOutUnread(ctx context.Context, s *staging, warnings string) error {
	deep := false
	for line := range strings.Lines(warnings) {
		m := unreadDirPattern.FindStringSubmatch(strings.TrimSpace(line))
		switch {
		case m == nil:
		case m[2] == "" || strings.Contains(m[2], "too long"):
			deep = true
		default:
			s.leaveOut(m[1], m[2])
		}
	}
	if !deep {
		return nil
	}
	survey, err := sandbox.Examine(ctx, v.dir)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	what, why := "files in deep directories", "git cannot read such long paths"
	if err == nil && survey.TooDeep > 0 {
		what = fmt.Sprintf("%s deep in %s/", plural(int(survey.TooDeep), "file", "files"), fleet.Shorten(survey.TooDeepIn, maxReason))
	}
	s.leaveOut(what, why)
	return nil
}

// addPaths adds the paths to the index. git refuses all paths of a call if it cannot add one of them, so addPaths divides them
// until it has found the paths that git refuses. After maxRefused refused calls, it stops dividing and leaves out all paths of a
// refused call.
func (v *view) addPaths(ctx context.Context, s *staging, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	in := strings.NewReader(strings.Join(paths, "\x00") + "\x00")
	err := v.pipe(ctx, in, io.Discard, "update-index", "-z", "--add", "--remove", "--replace", "--stdin")
	if _, isGitError := errors.AsType[*Error](err); !isGitError || ctx.Err() != nil {
		return err
	}
	_ = os.Remove(filepath.Join(v.gitDir, "index.lock")) // git was perhaps killed at one of its limits
	if s.refused++; len(paths) == 1 || s.refused > maxRefused {
		what := paths[0]
		if len(paths) > 1 {
			what = fmt.Sprintf("%s and %d more files", what, len(paths)-1)
		}
		s.leaveOut(what, err.Error())
		return nil
	}
	half := len(paths) / 2
	if err := v.addPaths(ctx, s, paths[:half]); err != nil {
		return err
	}
	return v.addPaths(ctx, s, paths[half:])
}
