// Everything public.
#pragma once

#include "spmm/arrays.hpp"
#include "spmm/chain.hpp"
#include "spmm/device.hpp"
#include "spmm/element_types.hpp"
#include "spmm/engine.hpp"
#include "spmm/error.hpp"
#include "spmm/io.hpp"
#include "spmm/multiply.hpp"
#include "spmm/options.hpp"
#include "spmm/plan.hpp"
#include "spmm/report.hpp"
#include "spmm/saturate.hpp"
#include "spmm/selection.hpp"
#include "spmm/stream.hpp"
#include "spmm/types.hpp"
