package local

import (
	"path/filepath"

	"fleet/internal/runner"
	"fleet/internal/runner/worktree"
)

// Tree implements runner.Workspace. After an agent is deleted, the changes of its tasks are still in the repository of
// its project.
func (s workspace) Tree() (*runner.Tree, error) {
	t := &runner.Tree{Git: s.place.git, UID: s.agent.UID}
	rec, err := s.home.record()
	switch {
	case err != nil:
		return nil, runner.HostError("cannot read the agent's record", err)
	case rec != nil:
		t.Tree = s.home.tree(rec)
	default:
		p, err := s.place.project(s.agent.Project)
		if err != nil {
			return nil, nil //nolint:nilerr,nilnil // the project is gone, and so is its repository
		}
		if t.Repository = p.Repository; isRemote(p.Repository) {
			t.Repository = worktree.Mirror(filepath.Join(s.place.config.Dir, "repositories"), p.Repository)
		}
	}
	if t.Repository == "" {
		return nil, nil //nolint:nilnil // see runner.Workspace
	}
	return t, nil
}
