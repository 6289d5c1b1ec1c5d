package local

import (
	"fleet/internal/runner"
)

// Tree implements runner.Workspace. The changes of a deleted agent's tasks are still in the repository of the agent's project,
// so Tree finds them too.
func (s workspace) Tree() (*runner.Tree, error) {
	t := &runner.Tree{Git: s.place.git}
	rec, err := s.home.record()
	switch {
	case err != nil:
		return nil, runner.HostError("cannot read the agent's record", err)
	case rec != nil:
		t.Tree = s.home.tree(rec)
	default:
		p, err := s.place.project(s.agent.Project)
		if err != nil {
			return nil, nil //nolint:nilerr,nilnil // without the project, the repository is unknown
		}
		t.Repository = s.place.config.repositoryPath(p.Repository)
	}
	if t.Repository == "" {
		return nil, nil //nolint:nilnil // see runner.Workspace
	}
	t.UID = s.agent.UID
	return t, nil
}
