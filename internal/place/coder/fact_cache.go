package coder

import (
	"sync"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"

	"fleet/internal/fleet"
)

// factCache caches facts that Coder's list of workspaces does not contain.
type factCache struct {
	mu       sync.Mutex
	byID     map[uuid.UUID]*workspaceFacts                    // by workspace
	byBuild  map[uuid.UUID][]codersdk.WorkspaceBuildParameter // parameters by build; the parameters of a build never change
	failures map[uuid.UUID]readFailure                        // builds whose parameters could not be read
}

// workspaceFacts holds the facts about the latest build of one workspace.
type workspaceFacts struct {
	build    uuid.UUID
	wasReady bool // whether the agent was ready before; if so, a busy AgentAPI means that the agent works on a task

	probedAt time.Time   // when the app was last probed
	state    fleet.State // as the last probe found it
	reason   string

	metadataReadAt time.Time // when the metadata were last read
	metadata       map[string]string
	ports          []uint16 // on which programs listen
}

// get returns a copy of the cached facts about the workspace's latest build. If none are cached, only the build is set.
func (c *factCache) get(ws codersdk.Workspace) workspaceFacts {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cached := c.byID[ws.ID]; cached != nil && cached.build == ws.LatestBuild.ID {
		return *cached
	}
	return workspaceFacts{build: ws.LatestBuild.ID}
}

// update calls change with the cached facts about the workspace's latest build.
func (c *factCache) update(ws codersdk.Workspace, change func(*workspaceFacts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.byID[ws.ID]
	if known == nil || known.build != ws.LatestBuild.ID {
		known = &workspaceFacts{build: ws.LatestBuild.ID}
		c.byID[ws.ID] = known
	}
	change(known)
}

func (c *factCache) forget(id uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byID, id)
}

// retain forgets all facts about workspaces and builds that are not given. It keeps the parameters of other builds until there are
// many of them.
func (c *factCache) retain(workspaces, builds map[uuid.UUID]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.byID {
		if !workspaces[id] {
			delete(c.byID, id)
		}
	}
	for id := range c.failures {
		if !builds[id] {
			delete(c.failures, id)
		}
	}
	if len(c.byBuild) > 2*len(builds)+64 {
		for id := range c.byBuild {
			if !builds[id] {
				delete(c.byBuild, id)
			}
		}
	}
}

// maxReadTries is the number of failed attempts to read build parameters, without an answer of Coder, after which the failure counts.
const maxReadTries = 3

// addReadFailure records a failed attempt to read the build's parameters. If Coder did not respond at all, the failure counts
// only after maxReadTries attempts.
func (c *factCache) addReadFailure(build uuid.UUID, err error, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	failure := c.failures[build]
	if failure.tries++; isResponse(err) || failure.tries >= maxReadTries {
		failure.err, failure.failedAt = err, now
	}
	c.failures[build] = failure
}

// lacksParameters reports whether the parameters of the build are not cached. If so, it also returns the record of failed attempts to
// read them. The record has no error if there was no attempt, or until the failure counts.
func (c *factCache) lacksParameters(build uuid.UUID) (failure readFailure, lacks bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byBuild[build]; ok {
		return readFailure{}, false
	}
	return c.failures[build], true
}
