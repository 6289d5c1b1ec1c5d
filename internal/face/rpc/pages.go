package rpc

import (
	"fleet/internal/fleet"
)

// pageIn returns the requested page of a list, which begins at a page number or after a cursor.
func pageIn(page, size *int32, cursor string, limit *int32) fleet.PageRequest {
	return fleet.PageRequest{Page: intIn(page), PageSize: intIn(size), Cursor: cursor, Limit: intIn(limit)}
}

// cursorPageIn returns the requested part of a list, which begins after the cursor.
func cursorPageIn(cursor string, limit *int32) fleet.PageRequest {
	return fleet.PageRequest{Cursor: cursor, Limit: intIn(limit)}
}

// portionIn returns the requested part of a text, such as a payload or a patch.
func portionIn(offset, limit, tail *int32) *fleet.PortionRequest {
	return &fleet.PortionRequest{Offset: intIn(offset), Limit: intIn(limit), Tail: intIn(tail)}
}
