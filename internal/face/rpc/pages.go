package rpc

import (
	"fleet/internal/fleet"
)

// pageOf returns the requested page of a list, which a number or a cursor names.
func pageOf(page, size *int32, cursor string, limit *int32) fleet.PageRequest {
	return fleet.PageRequest{Page: intOf(page), PageSize: intOf(size), Cursor: cursor, Limit: intOf(limit)}
}

// cursorPageOf returns the requested part of a list, which begins after the cursor.
func cursorPageOf(cursor string, limit *int32) fleet.PageRequest {
	return fleet.PageRequest{Cursor: cursor, Limit: intOf(limit)}
}

// portionOf returns the requested part of a payload.
func portionOf(offset, limit, tail *int32) *fleet.PortionRequest {
	return &fleet.PortionRequest{Offset: intOf(offset), Limit: intOf(limit), Tail: intOf(tail)}
}
