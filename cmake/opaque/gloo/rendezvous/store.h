#pragma once
#include "gloo/opaque.h"
