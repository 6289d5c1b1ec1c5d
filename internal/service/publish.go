package service

import (
	"cmp"
	"context"
	"strings"

	"fleet/internal/fleet"
)

// PublishRequest says where the work of a task is pushed, and whether a pull request is opened for it.
type PublishRequest struct {
	TaskID string
	Remote string // empty: the only remote of the repository, or origin
	Branch string // at the remote; empty: the name of the agent's branch

	PullRequest bool
	Into        string // of the pull request; empty: the branch at which the work of the project begins
	Title, Text string // of the pull request; empty: from the task
	Draft       bool

	RequestID string // only its length is checked, because a repeated call does no harm
}

// PublishTask pushes the work of a task to another repository, and may open a pull request there. It pushes with the credentials of the
// server's user or, for work in a workspace, with those of the workspace. A repeated call pushes what is new and returns the pull request
// that exists.
func (s *Service) PublishTask(ctx context.Context, r PublishRequest) (*LandingView, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if r.TaskID == "" {
		return nil, errNoTaskID()
	}
	if err := CheckRequestID(r.RequestID); err != nil {
		return nil, err
	}
	var t *fleet.Task
	var l *fleet.Landing
	if err := s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		if t, err = s.task(tx, p, r.TaskID, fleet.AccessRun); err != nil {
			return err
		}
		if l, err = landingOf(tx, t.ID); err == nil && l == nil {
			err = errNoWork(tx, t)
		}
		return err
	}); err != nil {
		return nil, err
	}
	repo, err := s.repository(l.Place, l.Project)
	if err != nil {
		return nil, err
	}
	if err := s.collectWork(ctx, repo, t); err != nil {
		return nil, err
	}
	branch := cmp.Or(r.Branch, strings.TrimPrefix(l.Branch, "refs/heads/"))
	switch {
	case strings.HasPrefix(r.Branch, "refs/"):
		return nil, fleet.InvalidField("branch", "branch is %q: leave out refs/heads/", fleet.Shorten(r.Branch, fleet.MaxTitle))
	case branch == "" || strings.HasPrefix(branch, "refs/"):
		return nil, fleet.InvalidField("branch", "the agent has worked on no branch: name the branch to push to")
	}
	pushed, err := repo.Push(ctx, fleet.Push{Commit: l.Head, Branch: branch, Remote: r.Remote})
	if err != nil {
		return nil, err
	}
	publication := &fleet.Publication{Remote: pushed.Remote, URL: pushed.URL, Branch: branch, Commit: l.Head, At: s.now()}
	if r.PullRequest {
		if publication.PullRequest, err = s.openPullRequest(ctx, r, repo, t, l, pushed.URL, branch); err != nil {
			return nil, err
		}
	}
	if err := s.store.Update(ctx, func(tx fleet.Tx) error {
		current, err := landingOf(tx, t.ID)
		if err != nil || current == nil {
			return err
		}
		if current.Publication != nil && current.Publication.PullRequest != "" && publication.PullRequest == "" && current.Publication.Branch == branch {
			publication.PullRequest = current.Publication.PullRequest
		}
		current.Publication = publication
		text := "pushed to " + branch + " of " + publication.Remote
		if r.PullRequest {
			text = "published as " + publication.PullRequest
		}
		return s.putLanding(tx, t, current, text)
	}); err != nil {
		return nil, err
	}
	return s.landingView(ctx, t.ID)
}

// openPullRequest opens a pull request for the branch at the URL, and returns its address.
func (s *Service) openPullRequest(ctx context.Context, r PublishRequest, repo fleet.Repository, t *fleet.Task, l *fleet.Landing, url, branch string) (string, error) {
	into := r.Into
	if into == "" {
		b, err := repo.Branch(ctx, "")
		if err != nil {
			return "", err
		}
		into = b.Name
	}
	c, err := s.combination(ctx, t, &fleet.Landing{Request: &fleet.LandingRequest{}, EarlierTasks: l.EarlierTasks}, "")
	if err != nil {
		return "", err
	}
	title, text, _ := strings.Cut(c.Message, "\n")
	return s.cfg.PullRequest(ctx, fleet.PullRequest{
		URL: url, Branch: branch, Into: into, Title: cmp.Or(r.Title, title), Text: strings.TrimSpace(cmp.Or(r.Text, text)), Draft: r.Draft,
	})
}
