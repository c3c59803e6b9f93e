"""Colours that all pictures share: of texts and curves that matter, of what stands behind them, and of grids."""

INK, SOFT, FAINT = "#22223b", "#5c5c77", "#e3e3ec"
