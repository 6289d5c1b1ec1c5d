package fleet

import "time"

// QueueFigures says how many tasks are pending, and since when, by their first reason.
type QueueFigures struct {
	Tasks  map[WaitReason]int
	Oldest map[WaitReason]time.Time // when the oldest one was queued
	Paused bool                     // the whole fleet
}
