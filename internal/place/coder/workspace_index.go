package coder

import (
	"sync"

	"github.com/google/uuid"
)

// workspaceIndex caches which workspace belongs to which agent. It saves searches, and prevents an agent from getting another
// agent's workspace.
type workspaceIndex struct {
	mu     sync.Mutex
	byUID  map[string]uuid.UUID // workspace of the agent, by uid
	agents map[uuid.UUID]string // uid of the agent, by workspace
}

func (w *workspaceIndex) set(uid string, id uuid.UUID) {
	if uid == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byUID[uid], w.agents[id] = id, uid
}

// forget removes a deleted workspace and its agent from the cache.
func (w *workspaceIndex) forget(id uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byUID, w.agents[id])
	delete(w.agents, id)
}

func (w *workspaceIndex) workspace(uid string) (uuid.UUID, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, ok := w.byUID[uid]
	return id, ok
}

func (w *workspaceIndex) agent(id uuid.UUID) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.agents[id]
}
