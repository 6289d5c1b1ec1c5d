package worktree

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"fleet/internal/place/agentfile"
	"fleet/internal/runner/gitfiles"
)

// maxFetches limits how many times missing objects of one commit are fetched. Trees that were fetched can name further
// missing objects.
const maxFetches = 200

// promisorSettingPattern matches the settings of a partial clone that are needed to fetch its missing objects.
var promisorSettingPattern = regexp.MustCompile(`^(extensions\.partialclone|remote\..*\.(url|promisor|partialclonefilter))$`)

// fetchMissing fetches the objects of the commit's tree that a partial clone does not have. An agent's sandbox may prevent
// the agent from fetching them. fetchMissing does nothing in an ordinary repository.
func (g *Git) fetchMissing(ctx context.Context, repository, commit string) error {
	settings, err := g.settings(ctx, commonDir(repository))
	if err != nil {
		return err
	}
	remote := promisor(settings)
	if remote == "" {
		return nil
	}
	v, err := g.openRepository(repository)
	if err != nil {
		return err
	}
	defer v.close()
	for _, s := range settings {
		if promisorSettingPattern.MatchString(s.key) {
			if err := agentfile.Append(filepath.Join(v.gitDir, "config"), []byte(s.String())); err != nil {
				return err
			}
		}
	}
	v.policy = nil // git needs the network and the user's keys
	for range maxFetches {
		var out bytes.Buffer
		if err := v.pipe(ctx, nil, &out, "rev-list", "--objects", "--no-walk", "--missing=print", commit); err != nil {
			return err
		}
		var missing strings.Builder
		for line := range strings.Lines(out.String()) {
			if oid, ok := strings.CutPrefix(strings.TrimSpace(line), "?"); ok && gitfiles.IsOID(oid) {
				missing.WriteString(oid + "\n")
			}
		}
		if missing.Len() == 0 {
			return nil
		}
		err := v.pipe(ctx, strings.NewReader(missing.String()), io.Discard, "-c", "fetch.negotiationAlgorithm=noop",
			"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--recurse-submodules=no", "--filter=blob:none", "--stdin", remote)
		if err != nil {
			return err
		}
	}
	return &Error{Message: "the repository is a partial clone, and its remote does not have all objects: fetch them with git fetch --refetch --no-filter"}
}

// promisor returns the name of the remote from which a partial clone fetches missing objects. The name is empty if the
// repository is not a partial clone.
func promisor(settings []setting) string {
	for _, s := range settings {
		remote, ok := strings.CutPrefix(s.key, "remote.")
		if remote, found := strings.CutSuffix(remote, ".promisor"); ok && found && s.value == "true" && !strings.HasPrefix(remote, "-") {
			return remote
		}
		if s.key == "extensions.partialclone" && s.value != "" && !strings.HasPrefix(s.value, "-") {
			return s.value
		}
	}
	return ""
}
