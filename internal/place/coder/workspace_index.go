package coder

import (
	"sync"

	"github.com/google/uuid"
)

// workspaceIndex caches which workspace belongs to which agent. It saves searches, and prevents an agent from getting another
// agent's workspace.
type workspaceIndex struct {
	mu     sync.Mutex
	byUID  map[string]uuid.UUID
	agents map[uuid.UUID]string // uid of the agent, by workspace
}

func (x *workspaceIndex) set(uid string, id uuid.UUID) {
	if uid == "" {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.byUID[uid], x.agents[id] = id, uid
}

// forget removes a deleted workspace and its agent from the cache.
func (x *workspaceIndex) forget(id uuid.UUID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.byUID, x.agents[id])
	delete(x.agents, id)
}

func (x *workspaceIndex) workspace(uid string) (uuid.UUID, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	id, ok := x.byUID[uid]
	return id, ok
}

func (x *workspaceIndex) agent(id uuid.UUID) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.agents[id]
}
